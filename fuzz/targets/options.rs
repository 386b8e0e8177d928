//! Parsing of option values: names of enum variants, references to arrays, lists of names, and the server's model arguments.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use nuq::{BandwidthRule, Criterion, SquaredError};
use nuq_fuzz::allocation;

/// Checks that the text of a parsed value is parsed to the same value. Values are compared as text, because NaN differs from itself.
fn round_trip<T: FromStr<Err: Display> + Display + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let again = value.to_string().parse::<T>().ok();
            assert_eq!(format!("{again:?}"), format!("Some({value:?})"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    allocation::limit_for(text.len());
    round_trip::<nuq::Kernel>(text);
    round_trip::<nuq::Variance>(text);
    round_trip::<nuq::Scale>(text);
    round_trip::<nuq::Covariance>(text);
    round_trip::<nuq::calibrate::Measure>(text);
    round_trip::<nuq::calibrate::SetScore>(text);
    round_trip::<nuq::calibrate::Predictor>(text);
    round_trip::<Criterion>(text);
    round_trip::<nuq::DensityKind>(text);
    round_trip::<nuq::DensityBandwidth>(text);
    round_trip::<nuq::Shrinkage>(text);
    round_trip::<nuq::Device>(text);
    round_trip::<nuq::nuq_neighbors::IndexKind>(text);
    round_trip::<nuq::nuq_neighbors::Precision>(text);
    round_trip::<nuq_eval::baselines::KnnReduction>(text);
    round_trip::<nuq_eval::baselines::SngpReduction>(text);
    round_trip::<nuq_server::MetricsAccess>(text);
    round_trip::<nuq_eval::evaluate::MethodId>(text);
    round_trip::<nuq_io::Format>(text);
    round_trip::<nuq_io::Header>(text);
    // Bandwidths have no text form.
    let _ = (text.parse::<BandwidthRule<Criterion>>(), text.parse::<BandwidthRule<SquaredError>>());
    let Ok(spec) = text.parse::<nuq_io::ArraySpec>();
    let path = spec.path.display();
    let parts = spec.name.as_ref().map_or(path.to_string(), |name| format!("{path}:{name}"));
    assert_eq!(parts, text, "a reference to an array has lost a part");
    let names = nuq_io::split_names(text);
    assert_eq!(
        nuq_io::split_names(&nuq_io::join_names(&names)),
        names,
        "a list of names differs after it was written"
    );
    let _ = nuq_server::ModelSource::parse(text);
    let _ = nuq_server::PictureSource::parse(text);
});
