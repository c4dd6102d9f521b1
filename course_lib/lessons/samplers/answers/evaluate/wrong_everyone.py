# misconception: everyone_does_everything
# breaks: The ranks share the work: each sample goes through the model of one rank.
import torch
from torch.utils.data import DataLoader


@torch.no_grad()
def evaluate(model, dataset):
    right = 0
    for features, labels in DataLoader(dataset, batch_size=16):
        right += (model(features).argmax(1) == labels).sum().item()
    return right / len(dataset)
