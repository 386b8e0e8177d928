//! Residual networks (He et al. 2016) in the form for CIFAR: the stem is one 3 × 3 convolution of stride 1 without pooling.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use nuq_neighbors::SeededRng;

use super::layers::{ConvNorm, average_positions};

/// What a block is made of.
#[derive(Debug, Clone, Copy)]
enum BlockKind {
    /// Two 3 × 3 convolutions (ResNet-18).
    Basic,
    /// 1 × 1, 3 × 3, 1 × 1, the last four times as wide (ResNet-50).
    Bottleneck,
}

impl BlockKind {
    /// The channels that leave a block of this width.
    fn outputs(self, width: usize) -> usize {
        match self {
            Self::Basic => width,
            Self::Bottleneck => 4 * width,
        }
    }
}

/// Convolutions, and a way around them.
#[derive(Module, Debug)]
struct Block {
    convolutions: Vec<ConvNorm>,
    /// Where shapes differ, the way around is a 1 × 1 convolution.
    shortcut: Option<ConvNorm>,
}

impl Block {
    fn new(
        rng: &mut SeededRng,
        kind: BlockKind,
        inputs: usize,
        width: usize,
        stride: usize,
        device: &Device,
    ) -> Self {
        let outputs = kind.outputs(width);
        let shapes = match kind {
            BlockKind::Basic => vec![([inputs, width], 3, stride), ([width, width], 3, 1)],
            BlockKind::Bottleneck => {
                vec![([inputs, width], 1, 1), ([width, width], 3, stride), ([width, outputs], 1, 1)]
            }
        };
        let convolutions = shapes
            .into_iter()
            .map(|(channels, size, stride)| ConvNorm::new(rng, channels, size, stride, device))
            .collect();
        let fits = stride == 1 && inputs == outputs;
        let shortcut = (!fits).then(|| ConvNorm::new(rng, [inputs, outputs], 1, stride, device));
        Self { convolutions, shortcut }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let around = match &self.shortcut {
            Some(shortcut) => shortcut.forward(input.clone()),
            None => input.clone(),
        };
        let last = self.convolutions.len() - 1;
        let through = self.convolutions.iter().enumerate().fold(input, |maps, (i, convolution)| {
            let maps = convolution.forward(maps);
            if i < last { relu(maps) } else { maps }
        });
        relu(through + around)
    }
}

#[derive(Module, Debug)]
pub(crate) struct ResNet {
    stem: ConvNorm,
    blocks: Vec<Block>,
}

impl ResNet {
    /// ResNet-18 with `width` channels in its first stage.
    pub(crate) fn resnet18(rng: &mut SeededRng, channels: usize, width: usize, device: &Device) -> Self {
        Self::new(rng, BlockKind::Basic, [2, 2, 2, 2], channels, width, device)
    }

    /// ResNet-50 with `width` channels in its first stage.
    pub(crate) fn resnet50(rng: &mut SeededRng, channels: usize, width: usize, device: &Device) -> Self {
        Self::new(rng, BlockKind::Bottleneck, [3, 4, 6, 3], channels, width, device)
    }

    fn new(
        rng: &mut SeededRng,
        kind: BlockKind,
        stages: [usize; 4],
        channels: usize,
        width: usize,
        device: &Device,
    ) -> Self {
        let stem = ConvNorm::new(rng, [channels, width], 3, 1, device);
        let mut blocks = Vec::new();
        let mut inputs = width;
        for (stage, &count) in stages.iter().enumerate() {
            let stage_width = width << stage;
            for i in 0..count {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                blocks.push(Block::new(rng, kind, inputs, stage_width, stride, device));
                inputs = kind.outputs(stage_width);
            }
        }
        Self { stem, blocks }
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let stem = relu(self.stem.forward(images));
        average_positions(self.blocks.iter().fold(stem, |maps, block| block.forward(maps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(device: &Device) -> Tensor<4> {
        Tensor::ones([2, 3, 16, 16], device)
    }

    #[test]
    fn shapes_are_those_of_the_papers_table() {
        let device = Device::flex();
        let small = ResNet::resnet18(&mut SeededRng::new(0), 3, 2, &device);
        assert_eq!(small.blocks.len(), 8);
        assert_eq!(small.features(picture(&device)).dims(), [2, 2 * 8]);
        let large = ResNet::resnet50(&mut SeededRng::new(0), 3, 2, &device);
        assert_eq!(large.blocks.len(), 16);
        assert_eq!(large.features(picture(&device)).dims(), [2, 2 * 8 * 4]);
    }

    #[test]
    fn parameters_count_as_published() {
        // torchvision's ResNet-18 without its head has 11,176,512 parameters; the 3 × 3 stem has 64 · 3 · (49 − 9) fewer.
        let published = 11_176_512 - 64 * 3 * (49 - 9);
        let network = ResNet::resnet18(&mut SeededRng::new(0), 3, 64, &Device::flex());
        // burn counts running means and variances, two for each channel that is normalized.
        let channels: usize = 64 + 4 * 64 + 5 * (128 + 256 + 512);
        assert_eq!(network.num_params(), published + 2 * channels);
    }
}
