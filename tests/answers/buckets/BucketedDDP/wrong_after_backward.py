# misconception: no_overlap
# breaks: The first buckets are sent while backward is still running, and backward waits for none.
# breaks: the first ones are on their way while backward is still running
# breaks: bucket by bucket, while backward is running
import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_size_mb):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets = [[]]
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            if sum(p.nbytes for p in self.buckets[-1]) >= bucket_size_mb * 2**20:
                self.buckets.append([])
            self.buckets[-1].append(parameter)
        self.start_over()

    def forward(self, *inputs, **kwargs):
        for buffer in self.module.buffers():
            dist.broadcast(buffer, src=0)
        return self.module(*inputs, **kwargs)

    def start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.sent = []

    def ready(self, parameter):
        for missing in self.missing:
            missing.discard(parameter)
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            self.send()

    def send(self):
        bucket = self.buckets[len(self.sent)]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
        self.sent.append((flat, dist.all_reduce(flat, async_op=True)))

    def finish_gradient_synchronization(self):
        while len(self.sent) < len(self.buckets):
            self.send()
        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=True):
            work.wait()
            for parameter, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = piece.view_as(parameter)
        self.start_over()
