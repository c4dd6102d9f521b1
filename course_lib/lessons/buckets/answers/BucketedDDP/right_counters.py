import torch
import torch.distributed as dist


class Bucket:
    def __init__(self):
        self.parameters, self.bytes = [], 0

    def reset(self):
        self.pending, self.work = len(self.parameters), None

    def launch(self):
        pieces = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self.parameters]
        self.flat = torch.cat(pieces)
        self.work = dist.all_reduce(self.flat, op=dist.ReduceOp.SUM, async_op=True)


class BucketedDDP(torch.nn.Module):
    """Buckets are closed before they would exceed the cap, and results are copied."""

    def __init__(self, module, bucket_size_mb):
        super().__init__()
        self.module = module
        for t in module.state_dict().values():
            dist.broadcast(t, 0)
        cap = bucket_size_mb * 1024 * 1024
        trainable = [p for p in module.parameters() if p.requires_grad]
        self.all, home = [], {}
        for p in trainable[::-1]:
            size = p.numel() * p.element_size()
            if not self.all or self.all[-1].bytes + size > cap:
                self.all.append(Bucket())
            self.all[-1].parameters.append(p)
            self.all[-1].bytes += size
#~ elements -1 |            self.all[-1].bytes += p.numel()
            home[id(p)] = self.all[-1]
#~ not_counted_again -0 |        for bucket in self.all:
#~ |            bucket.reset()
        for p in trainable:
            p.register_post_accumulate_grad_hook(lambda p: self.arrived(home[id(p)]))
        self.reset()

    def reset(self):
        self.next = 0
        for bucket in self.all:
            bucket.reset()
#~ not_counted_again -2

    def arrived(self, bucket):
        bucket.pending -= 1
        while self.next < len(self.all) and self.all[self.next].pending == 0:
            self.all[self.next].launch()
            self.next += 1

    def forward(self, *args, **kwargs):
        if self.training:
            for b in self.module.buffers():
                dist.broadcast(b, 0)
        return self.module(*args, **kwargs)

    @torch.no_grad()
    def finish_gradient_synchronization(self):
        for bucket in self.all[self.next :]:
            bucket.launch()
        for bucket in self.all:
            bucket.work.wait()
            offset = 0
            for p in bucket.parameters:
                mean = bucket.flat[offset : offset + p.numel()].view_as(p) / dist.get_world_size()
                p.grad = mean if p.grad is None else p.grad.copy_(mean)
                offset += p.numel()
        self.reset()

#~ elements: misconception: one_bucket
#~ not_counted_again: misconception: only_once
#~ not_counted_again: breaks: The first buckets are sent while backward is still running, and backward waits for none.
