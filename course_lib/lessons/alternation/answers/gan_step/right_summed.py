from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()
#~ graph_freed -1 |    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake)).mean()
    loss.backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
#~ discriminator_only -3

#~ discriminator_only: misconception: none
#~ graph_freed: misconception: fake_not_detached
