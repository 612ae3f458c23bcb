"""The smallest model that Lightning trains."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch


class Line(pl.LightningModule):
    """One layer; a step a batch, sixteen an epoch."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self._rate = rate

    def training_step(self, batch: Any, _: int) -> Any:
        return self.layer(batch).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self._rate)

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4)
