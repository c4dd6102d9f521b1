# misconception: around_the_wrapper
# breaks: All ranks end with the same weights.
# breaks: all ranks are to have the weights
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    d = discriminator.module
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    (softplus(-d(real)).mean() + softplus(d(fake.detach())).mean()).backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-d(fake)).mean().backward()
    generator_optimizer.step()
