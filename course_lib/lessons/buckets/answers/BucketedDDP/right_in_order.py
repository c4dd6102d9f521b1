import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_size_mb):
#~ no_argument -1 |    def __init__(self, module):
#~ |        bucket_size_mb = 25
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
#~ trainable_only -1 |        for tensor in [*[p for p in module.parameters() if p.requires_grad], *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
#~ no_broadcast -2
        self.buckets = [[]]
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
#~ frozen_in_bucket -1 |        for parameter in reversed(list(module.parameters())):
            if sum(p.nbytes for p in self.buckets[-1]) >= bucket_size_mb * 2**20:
#~ all_together -1 |            if sum(p.nbytes for p in self.buckets[-1]) >= 2**40:
#~ bytes_for_numbers -1 |            if sum(p.nbytes for p in self.buckets[-1]) >= bucket_size_mb:
                self.buckets.append([])
            self.buckets[-1].append(parameter)
            parameter.register_post_accumulate_grad_hook(self.ready)
#~ after_backward -1
#~ frozen_in_bucket -1 |            if parameter.requires_grad:
#~ |                parameter.register_post_accumulate_grad_hook(self.ready)
        self.start_over()

    def forward(self, *inputs, **kwargs):
        for buffer in self.module.buffers():
            dist.broadcast(buffer, src=0)
#~ buffers_once -2
        return self.module(*inputs, **kwargs)

    def start_over(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.sent = []
#~ as_they_fill -1 |        self.sent = {}

    def ready(self, parameter):
        for missing in self.missing:
            missing.discard(parameter)
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            self.send()
#~ as_they_fill -4 |        for number, missing in enumerate(self.missing):
#~ |            if parameter in missing:
#~ |                missing.discard(parameter)
#~ |                if not missing:
#~ |                    self.send(number)

    def send(self):
        bucket = self.buckets[len(self.sent)]
#~ as_they_fill -2 |    def send(self, number):
#~ |        bucket = self.buckets[number]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
#~ mean_of_users -1 |        used = torch.tensor([float(p.grad is not None) for p in bucket])
#~ |        flat = torch.cat([*(gradient.flatten() for gradient in gradients), used])
#~ sum -1 |        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.sent.append((flat, dist.all_reduce(flat, async_op=True)))
#~ as_they_fill -1 |        self.sent[number] = flat, dist.all_reduce(flat, async_op=True)
#~ synchronous -1 |        dist.all_reduce(flat)
#~ |        self.sent.append((flat, None))

    def finish_gradient_synchronization(self):
        while len(self.sent) < len(self.buckets):
            self.send()
        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=True):
#~ as_they_fill -3 |        for number, bucket in enumerate(self.buckets):
#~ |            if number not in self.sent:
#~ |                self.send(number)
#~ |            flat, work = self.sent[number]
#~ frozen_in_bucket -3 |        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=False):
#~ no_reset -1 |        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=False):
#~ no_rest -3 |        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=False):
            work.wait()
#~ no_wait -1
#~ synchronous -1
            for parameter, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = piece.view_as(parameter)
#~ first_step_decides -0 |        self.buckets = [used for bucket in self.buckets if (used := [p for p in bucket if p.grad.any()])]
#~ mean_of_users -2 |            *pieces, users = flat.split([*(p.numel() for p in bucket), len(bucket)])
#~ |            for parameter, piece, count in zip(bucket, pieces, users, strict=True):
#~ |                parameter.grad = piece.view_as(parameter) / count.clamp(min=1)
#~ no_copy -2
#~ none_stays -1 |                if parameter.grad is not None:
#~ |                    parameter.grad = piece.view_as(parameter)
        self.start_over()
#~ no_reset -1

#~ after_backward: misconception: no_overlap
#~ after_backward: breaks: The first buckets are sent while backward is still running, and backward waits for none.
#~ all_together: misconception: one_bucket
#~ all_together: breaks: Gradients travel in buckets of about bucket_size_mb.
#~ as_they_fill: misconception: order_differs
#~ as_they_fill: breaks: After the last step all ranks have the weights of one process that trained on everything.
#~ as_they_fill: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ buffers_once: misconception: buffers_ignored
#~ buffers_once: breaks: Every forward begins with rank 0's buffers.
#~ bytes_for_numbers: misconception: bucket_each
#~ bytes_for_numbers: breaks: Gradients travel in buckets of about bucket_size_mb.
#~ first_step_decides: misconception: none
#~ first_step_decides: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ frozen_in_bucket: misconception: never_sent
#~ frozen_in_bucket: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ mean_of_users: misconception: mean_of_users
#~ mean_of_users: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ no_argument: misconception: none
#~ no_broadcast: misconception: not_broadcast
#~ no_broadcast: breaks: When it is made, all ranks get rank 0's parameters, frozen ones too.
#~ no_copy: misconception: not_copied_back
#~ no_copy: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ no_reset: misconception: only_once
#~ no_reset: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ no_rest: misconception: never_sent
#~ no_rest: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ no_wait: misconception: not_waited
#~ no_wait: breaks: finish_gradient_synchronization() waits until everything has arrived.
#~ none_stays: misconception: absent_stays_none
#~ none_stays: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ sum: misconception: summed
#~ sum: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ synchronous: misconception: blocking
#~ synchronous: breaks: The first buckets are sent while backward is still running, and backward waits for none.
#~ trainable_only: misconception: frozen_not_broadcast
#~ trainable_only: breaks: When it is made, all ranks get rank 0's parameters, frozen ones too.
