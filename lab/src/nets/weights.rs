//! Visits all weights of a model by path, for the optimizer, spectral normalization and checkpoints.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::Model;

/// One weight tensor of a model, flattened and detached from the autodiff graph.
pub(crate) struct Weight {
    /// Path in the model, for example `body.Cnn.convolutions.0.conv.weight`.
    pub(crate) path: String,
    /// Shape of the tensor.
    pub(crate) dims: Vec<usize>,
    /// Flattened values.
    pub(crate) values: Tensor<1>,
    /// Gradient of the loss, if available.
    pub(crate) gradient: Option<Tensor<1>>,
}

/// Calls `visit` for each weight, including tensors that are not trained by gradients (such as running means).
pub(crate) fn for_each_weight(model: &Model, visit: impl FnMut(Weight)) {
    model.visit(&mut WeightVisitor { path: Vec::new(), gradients: GradientsParams::new(), callback: visit });
}

/// Replaces each weight for which `change` returns new values. The new values must have the length of the flattened weight.
pub(crate) fn change_weights(
    model: Model,
    gradients: GradientsParams,
    change: impl FnMut(Weight) -> Option<Tensor<1>>,
) -> Model {
    model.map(&mut WeightVisitor { path: Vec::new(), gradients, callback: change })
}

struct WeightVisitor<F> {
    path: Vec<String>,
    gradients: GradientsParams,
    callback: F,
}

impl<F> WeightVisitor<F> {
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

impl<F: FnMut(Weight)> ModuleVisitor for WeightVisitor<F> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = self.weight(param);
        (self.callback)(weight);
    }
}

impl<F: FnMut(Weight) -> Option<Tensor<1>>> ModuleMapper for WeightVisitor<F> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let weight = self.weight(&param);
        match (self.callback)(weight) {
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
