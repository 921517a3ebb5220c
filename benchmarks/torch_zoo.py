"""Networks in PyTorch, as people write them, with seeded random weights. Sizes can be made small for tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# -- residual networks (He et al., 2015) ------------------------------------------------------------------------------


class Basic(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, and a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, planes * 4, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """The four stages with a stem before and a classifier behind."""

    def __init__(
        self, block: type[Basic] | type[Bottleneck], depths: tuple[int, ...], width: int, classes: int
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = width
        stages = []
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                blocks.append(block(channels, width << stage, 2 if stage and not i else 1))
                channels = (width << stage) * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(width: int = 64, classes: int = 1000) -> nn.Module:
    return seeded(ResNet(Basic, (2, 2, 2, 2), width, classes))


def resnet50(width: int = 64, classes: int = 1000) -> nn.Module:
    return seeded(ResNet(Bottleneck, (3, 4, 6, 3), width, classes))


# -- MobileNetV1 (Howard et al., 2017) --------------------------------------------------------------------------------


class MobileNet(nn.Module):
    """Depthwise and pointwise convolutions in turns."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        blocks = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)]
        layers = [self.step(3, width, 3, 2, 1)]
        channels = width
        for factor, stride in blocks:
            layers += [self.step(channels, channels, 3, stride, channels), self.step(channels, width * factor, 1, 1, 1)]
            channels = width * factor
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    @staticmethod
    def step(inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> nn.Module:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))


def mobilenet(width: int = 32, classes: int = 1000) -> nn.Module:
    return seeded(MobileNet(width, classes))


# -- UNet (Ronneberger et al., 2015) ----------------------------------------------------------------------------------


class UNet(nn.Module):
    """Down, up, and what was seen on the way down put beside it on the way up; one step up is learned, one is not."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.down1 = self.twice(3, width)
        self.down2 = self.twice(width, width * 2)
        self.bottom = self.twice(width * 2, width * 4)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(width * 4, width * 2, 2, 2)
        self.merge2 = self.twice(width * 4, width * 2)
        self.up1 = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge1 = self.twice(width * 3, width)
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def twice(inputs: int, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding="same"), nn.GroupNorm(2, outputs), nn.LeakyReLU(0.1)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        y = self.up2(self.bottom(self.pool(second)))
        y = self.merge2(torch.cat([second, y], dim=1))
        return self.head(self.merge1(torch.cat([first, self.up1(y)], dim=1)))


def unet(width: int = 32, classes: int = 2) -> nn.Module:
    return seeded(UNet(width, classes))


# -- a tagger ---------------------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    """Words to tags through a bidirectional network of two layers."""

    def __init__(self, words: int, width: int, tags: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(2 * width, tags)

    def forward(self, words: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embed(words))
        return F.log_softmax(self.tag(hidden), dim=-1)


def tagger(words: int = 50, width: int = 8, tags: int = 5) -> nn.Module:
    return seeded(Tagger(words, width, tags))


# -- transformers -----------------------------------------------------------------------------------------------------


class CausalAttention(nn.Module):
    """Queries, keys and values from one projection, as in GPT-2 (Radford et al., 2019)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class GPT2Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """Its last layer shares the weights of its first."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(length, width)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(GPT2Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.drop(self.wte(ids) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def gpt2(words: int = 50257, length: int = 1024, width: int = 768, heads: int = 12, layers: int = 12) -> nn.Module:
    return seeded(GPT2(words, length, width, heads, layers))


class BertLayer(nn.Module):
    """Attention written out, as in the first releases of BERT (Devlin et al., 2018)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.intermediate = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (q.shape[-1] ** 0.5) + mask
        mixed = torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)
        mixed = mixed.permute(0, 2, 1, 3).contiguous().view(x.shape)
        x = self.norm1(x + self.dropout(self.output(mixed)))
        return self.norm2(x + self.dropout(self.contract(F.gelu(self.intermediate(x)))))


class Bert(nn.Module):
    """Returns its hidden states and what the first of them says of the whole, by name."""

    position_ids: Tensor

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, width, padding_idx=0)
        self.position = nn.Embedding(length, width)
        self.kind = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(length).unsqueeze(0), persistent=False)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        positions = self.position(self.position_ids[:, : input_ids.shape[1]])
        kinds = self.kind(torch.zeros_like(input_ids))
        x = self.norm(self.word(input_ids) + positions + kinds)
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return {"hidden": x, "pooled": torch.tanh(self.pooler(x[:, 0]))}


def bert(words: int = 30522, length: int = 512, width: int = 768, heads: int = 12, layers: int = 12) -> nn.Module:
    return seeded(Bert(words, length, width, heads, layers))


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module, in inference mode, with weights and statistics that leave nothing invisible."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(1 + noise.square() * 0.1)
            elif tensor.dim() > 1:
                fan = tensor[0].numel()
                tensor.copy_(noise * (1.0 / fan) ** 0.5 * 1.2)
            elif name.endswith("weight"):
                tensor.copy_(1 + noise * 0.1)
            else:
                tensor.copy_(noise * 0.1)
    return module.eval()
