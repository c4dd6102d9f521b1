import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, batch_size, epochs, lr):
    ddp = nn.parallel.DistributedDataParallel(model)
#~ no_wrapper -1 |    ddp = model
#~ still_data_parallel -1 |    ddp = nn.DataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr, momentum=0.9)
#~ lr_scaled -1 |    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr * dist.get_world_size(), momentum=0.9)
    sampler = DistributedSampler(dataset, shuffle=False)
#~ shuffled -1 |    sampler = DistributedSampler(dataset)
#~ shuffled_once -1 |    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=batch_size // dist.get_world_size(), sampler=sampler)
#~ batch_size -1 |    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
#~ no_sampler -2 |    loader = DataLoader(dataset, batch_size=batch_size)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
#~ no_sampler -1
#~ shuffled_once -1
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
#~ loss_divided -1 |            loss = nn.functional.cross_entropy(ddp(inputs), labels) / dist.get_world_size()
#~ |            loss.backward()
            optimizer.step()
    return ddp.module.state_dict()
#~ list -1 |    return list(ddp.module.state_dict().values())
#~ names -1 |    return ddp.state_dict()
#~ no_wrapper -1 |    return ddp.state_dict()

#~ batch_size: misconception: batch_not_divided
#~ batch_size: breaks: The weights are those of the old script in one process.
#~ list: misconception: none
#~ loss_divided: misconception: steps_too_small
#~ loss_divided: breaks: The weights are those of the old script in one process.
#~ lr_scaled: misconception: steps_too_large
#~ lr_scaled: breaks: The weights are those of the old script in one process.
#~ names: misconception: wrapped_names
#~ names: breaks: The names are those of the model itself.
#~ no_sampler: misconception: everyone_does_everything
#~ no_sampler: breaks: The ranks share the work: each sample goes through one rank in an epoch.
#~ no_wrapper: misconception: not_averaged
#~ no_wrapper: breaks: All ranks return the same weights.
#~ shuffled: misconception: shuffled
#~ shuffled: breaks: The weights are those of the old script in one process.
#~ shuffled_once: misconception: shuffled
#~ shuffled_once: breaks: The weights are those of the old script in one process.
#~ still_data_parallel: misconception: not_averaged
#~ still_data_parallel: breaks: All ranks return the same weights.
