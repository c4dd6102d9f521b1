# misconception: stale_gradients
# breaks: The weights are those of one process that trains on the samples of all ranks.
# breaks: that one process would have that trains on all of them
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    (softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()).backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
