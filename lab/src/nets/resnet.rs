//! Residual networks (He et al. 2016) for CIFAR: the stem is one 3 × 3 convolution with stride 1 and without pooling.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use nuq_neighbors::SeededRng;

use super::layers::{ConvNorm, global_average_pool};

/// Type of a residual block.
#[derive(Debug, Clone, Copy)]
enum BlockKind {
    /// Two 3 × 3 convolutions (ResNet-18).
    Basic,
    /// Convolutions 1 × 1, 3 × 3 and 1 × 1, the last with four times as many channels (ResNet-50).
    Bottleneck,
}

impl BlockKind {
    /// Number of output channels of a block whose 3 × 3 convolutions have `width` channels.
    fn outputs(self, width: usize) -> usize {
        match self {
            Self::Basic => width,
            Self::Bottleneck => 4 * width,
        }
    }
}

/// A residual block.
#[derive(Module, Debug)]
struct Block {
    convolutions: Vec<ConvNorm>,
    /// 1 × 1 convolution, if input and output shapes differ; otherwise the shortcut is the identity.
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
        let same_shape = stride == 1 && inputs == outputs;
        let shortcut = (!same_shape).then(|| ConvNorm::new(rng, [inputs, outputs], 1, stride, device));
        Self { convolutions, shortcut }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let skipped = match &self.shortcut {
            Some(shortcut) => shortcut.forward(input.clone()),
            None => input.clone(),
        };
        let last = self.convolutions.len() - 1;
        let residual = self.convolutions.iter().enumerate().fold(input, |maps, (i, convolution)| {
            let maps = convolution.forward(maps);
            if i < last { relu(maps) } else { maps }
        });
        relu(residual + skipped)
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
        global_average_pool(self.blocks.iter().fold(stem, |maps, block| block.forward(maps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(device: &Device) -> Tensor<4> {
        Tensor::ones([2, 3, 16, 16], device)
    }

    #[test]
    fn output_shapes_match_the_resnet_paper() {
        let device = Device::flex();
        let small = ResNet::resnet18(&mut SeededRng::new(0), 3, 2, &device);
        assert_eq!(small.blocks.len(), 8);
        assert_eq!(small.features(images(&device)).dims(), [2, 2 * 8]);
        let large = ResNet::resnet50(&mut SeededRng::new(0), 3, 2, &device);
        assert_eq!(large.blocks.len(), 16);
        assert_eq!(large.features(images(&device)).dims(), [2, 2 * 8 * 4]);
    }

    #[test]
    fn parameter_count_matches_torchvision() {
        // ResNet-18 of torchvision without its head has 11,176,512 parameters. The 3 × 3 stem has 64 · 3 · (49 − 9) fewer.
        let published = 11_176_512 - 64 * 3 * (49 - 9);
        let network = ResNet::resnet18(&mut SeededRng::new(0), 3, 64, &Device::flex());
        // burn also counts running means and variances, two per normalized channel.
        let channels: usize = 64 + 4 * 64 + 5 * (128 + 256 + 512);
        assert_eq!(network.num_params(), published + 2 * channels);
    }
}
