# misconception: two_backwards
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fakes = generator(noise)
    on_real, on_fake = discriminator(real), discriminator(fakes.detach())
    discriminator.zero_grad()
    for loss in (softplus(-on_real).mean(), softplus(on_fake).mean()):
        loss.backward()
    discriminator_optimizer.step()
    generator.zero_grad()
    softplus(-discriminator(fakes)).mean().backward()
    generator_optimizer.step()
