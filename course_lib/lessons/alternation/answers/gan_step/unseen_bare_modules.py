# misconception: around_the_wrapper
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    g, d = generator.module, discriminator.module
    discriminator_optimizer.zero_grad()
    (softplus(-d(real)) + softplus(d(g(noise).detach()))).mean().backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-d(g(noise))).mean().backward()
    generator_optimizer.step()
