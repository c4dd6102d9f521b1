import torch


def bytes_held(shapes, ranks, scheme, mixed):
    numbers = piece = 0
    for shape in shapes:
        tensor = torch.empty(shape, device="meta")
        numbers += tensor.numel()
        piece += tensor.chunk(ranks)[0].numel()
    half = 2 if mixed else 4
    adam = 8 + (4 if mixed else 0)
    if scheme == "fsdp":
        return piece * (half + half + adam)
    buckets = half
    return numbers * (half + half + buckets) + numbers * adam / (ranks if scheme == "zero1" else 1)
