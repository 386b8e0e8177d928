//! A model as named rows of numbers: one walk for the optimizer, spectral normalization and checkpoints.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::Model;

/// One tensor of a model, flat and outside of any graph.
pub(crate) struct Weight {
    /// Where it is in the model: `body.Cnn.convolutions.0.conv.weight`.
    pub(crate) path: String,
    /// Its shape.
    pub(crate) dims: Vec<usize>,
    /// Its values.
    pub(crate) values: Tensor<1>,
    /// The loss's gradient, where there is one.
    pub(crate) gradient: Option<Tensor<1>>,
}

/// Looks at each weight, buffers included.
pub(crate) fn for_each_weight(model: &Model, look: impl FnMut(Weight)) {
    model.visit(&mut Walk { path: Vec::new(), gradients: GradientsParams::new(), act: look });
}

/// Puts another value where `change` gives one, which is as long as the old.
pub(crate) fn change_weights(
    model: Model,
    gradients: GradientsParams,
    change: impl FnMut(Weight) -> Option<Tensor<1>>,
) -> Model {
    model.map(&mut Walk { path: Vec::new(), gradients, act: change })
}

struct Walk<F> {
    path: Vec<String>,
    gradients: GradientsParams,
    act: F,
}

impl<F> Walk<F> {
    fn weight<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Weight {
        let values = param.val().inner();
        let dims = values.dims().to_vec();
        let length = dims.iter().product::<usize>();
        let gradient = self.gradients.remove::<D>(param.id);
        Weight {
            path: self.path.join("."),
            dims,
            gradient: gradient.map(|gradient| gradient.inner().reshape([length])),
            values: values.reshape([length]),
        }
    }
}

impl<F: FnMut(Weight)> ModuleVisitor for Walk<F> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = self.weight(param);
        (self.act)(weight);
    }
}

impl<F: FnMut(Weight) -> Option<Tensor<1>>> ModuleMapper for Walk<F> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let weight = self.weight(&param);
        match (self.act)(weight) {
            Some(changed) => {
                let (is_trained, id) = (param.is_require_grad(), param.id);
                let shape = param.dims();
                let value = Tensor::from_inner(changed.reshape(shape)).set_require_grad(is_trained);
                let (_, _, mapper) = param.consume();
                Param::from_mapped_value(id, value, mapper)
            }
            None => param,
        }
    }
}
