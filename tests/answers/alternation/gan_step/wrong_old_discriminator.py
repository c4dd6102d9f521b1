# misconception: old_discriminator
# breaks: The weights are those of one process that trains on the samples of all ranks.
# breaks: first the discriminator learns
# breaks: then the generator, with the discriminator as it is by then
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    discriminator_optimizer.zero_grad()
    (softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()).backward()
    discriminator_optimizer.step()
    generator_optimizer.step()
