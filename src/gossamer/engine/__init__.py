"""The real run: the only room that speaks torch.distributed."""
