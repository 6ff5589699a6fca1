"""A plain PyTorch script, one process: digits, with a scheduler and clipping; `distributed.py` runs on many workers."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
raw = load_digits()
images, labels = torch.tensor(raw.images, dtype=torch.float32).flatten(1) / 16, torch.tensor(raw.target)
train, test = TensorDataset(images[:1500], labels[:1500]), (images[1500:], labels[1500:])

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
loader = DataLoader(train, batch_size=64, shuffle=True)

for _ in range(8):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    scheduler.step()

with torch.no_grad():
    accuracy = (model(test[0]).argmax(1) == test[1]).float().mean().item()
print(f"accuracy {accuracy:.3f}")
