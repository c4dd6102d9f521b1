# misconception: order_differs
# breaks: After the last step all ranks have the weights of one process that trained on everything.
# breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
# breaks: in which order do two ranks send their buckets
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
            parameter.register_post_accumulate_grad_hook(self.ready)
        self.start_over()

    def forward(self, *inputs, **kwargs):
        for buffer in self.module.buffers():
            dist.broadcast(buffer, src=0)
        return self.module(*inputs, **kwargs)

    def start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.sent = {}

    def ready(self, parameter):
        for number, missing in enumerate(self.missing):
            if parameter in missing:
                missing.discard(parameter)
                if not missing:
                    self.send(number)

    def send(self, number):
        bucket = self.buckets[number]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
        self.sent[number] = flat, dist.all_reduce(flat, async_op=True)

    def finish_gradient_synchronization(self):
        for number, bucket in enumerate(self.buckets):
            if number not in self.sent:
                self.send(number)
            flat, work = self.sent[number]
            work.wait()
            for parameter, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = piece.view_as(parameter)
        self.start_over()
