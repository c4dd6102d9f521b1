# misconception: old_discriminator
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    made = generator(noise)
    generator.zero_grad()
    softplus(-discriminator(made)).mean().backward()
    generator_optimizer.step()
    discriminator.zero_grad()
    d_loss = softplus(-discriminator(real)).mean() + softplus(discriminator(made.detach())).mean()
    d_loss.backward()
    discriminator_optimizer.step()
