from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    discriminator.zero_grad()
    softplus(-discriminator(real)).mean().backward()
    softplus(discriminator(fake.detach())).mean().backward()
    discriminator_optimizer.step()
    generator.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
