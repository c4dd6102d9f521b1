# misconception: fake_not_detached
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fakes = generator(noise)
    discriminator.zero_grad()
    d_loss = softplus(discriminator(fakes)).mean() + softplus(-discriminator(real)).mean()
    d_loss.backward(retain_graph=True)
    discriminator_optimizer.step()
    generator.zero_grad()
    g_loss = softplus(-discriminator(fakes)).mean()
    g_loss.backward()
    generator_optimizer.step()
