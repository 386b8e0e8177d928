//! The extension module `nuq._nuq`.
//!
//! Each function converts its arguments, calls the Rust library without the interpreter lock and converts the result. No
//! computation is implemented here. The package in `python/nuq/` contains the estimators, which follow the conventions of
//! scikit-learn and call this module.

mod arrays;
mod baselines;
mod calibrate;
mod classifier;
mod command_line;
mod device_rows;
mod drift;
mod errors;
mod evaluate;
mod fork;
mod labels;
mod metrics;
mod model;
mod params;
mod regressor;
mod rules;
mod shards;
mod shared;
mod vocabulary;
mod work;

use pyo3::prelude::*;

// `fork.rs` relies on the interpreter lock.
#[pymodule(gil_used = true)]
mod _nuq {
    use super::*;

    #[pymodule_export]
    use super::calibrate::{PyScoreThreshold, PyThreshold, benjamini_hochberg, conformal_p_values};
    #[pymodule_export]
    use super::classifier::PyClassifier;
    #[pymodule_export]
    use super::drift::martingale;
    #[pymodule_export]
    use super::evaluate::{PyReport, evaluate, svg_to_png};
    #[pymodule_export]
    use super::regressor::PyRegressor;
    #[pymodule_export]
    use super::rules::{PyIntervalRule, PySetRule};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("MISSING_LABELS", pyo3::types::PyTuple::new(module.py(), nuq::Label::MISSING)?)?;
        module.add("CHOICES", vocabulary::choices(module.py())?)?;
        nuq_cuda::register();
        command_line::add(module)?;
        metrics::add(module)?;
        baselines::add(module)?;
        model::add(module)?;
        shards::add(module)?;
        device_rows::add(module)?;
        fork::register(module)
    }
}
