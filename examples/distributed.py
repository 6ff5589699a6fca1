"""`plain.py` on many workers: gossamer run --nproc-per-node 4 examples/distributed.py, or torchrun the same way."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gossamer

torch.manual_seed(0)
raw = load_digits()
images, labels = torch.tensor(raw.images, dtype=torch.float32).flatten(1) / 16, torch.tensor(raw.target)
train, test = TensorDataset(images[:1500], labels[:1500]), (images[1500:], labels[1500:])

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
loader = DataLoader(train, batch_size=64, shuffle=True)
model, optimizer, loader = gossamer.prepare(model, optimizer, loader, strategy="allreduce")

for _ in range(8):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    scheduler.step()

with gossamer.averaged(model), torch.no_grad():
    accuracy = (model(test[0]).argmax(1) == test[1]).float().mean().item()
if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
    print(f"accuracy {accuracy:.3f}")
