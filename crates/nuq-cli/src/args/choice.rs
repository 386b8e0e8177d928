//! Option values that are words, such as `--kernel gaussian`. The list of words comes from the type of the value, so `--help`,
//! error messages and completions list exactly what the library accepts.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use nuq::calibrate::{Measure, SetScore};
use nuq::{
    BandwidthRule, Covariance, Criterion, DensityBandwidth, DensityKind, Device, IndexKind, Kernel,
    NamedCriterion, Precision, Scale, Shrinkage, SquaredError, UnknownChoice, Variance,
};
use nuq_eval::baselines::Uses;
use nuq_eval::evaluate::MethodId;
use nuq_io::{Format, Header};

/// A type whose values are written as words on the command line.
pub(crate) trait Words: FromStr<Err = UnknownChoice> + Clone + Send + Sync + 'static {
    /// The accepted words, in the order in which they are listed.
    fn words() -> Vec<&'static str>;
}

macro_rules! words {
    ($($type:ty => $words:expr),+ $(,)?) => {
        $(impl Words for $type {
            fn words() -> Vec<&'static str> {
                $words
            }
        })+
    };
}

words!(
    Kernel => Self::ALL.iter().map(|kernel| kernel.name()).collect(),
    DensityKind => Self::ALL.iter().map(|kind| kind.name()).collect(),
    DensityBandwidth => Self::NAMES.to_vec(),
    Covariance => Self::ALL.iter().map(|covariance| covariance.name()).collect(),
    Shrinkage => Self::NAMES.to_vec(),
    Variance => Self::ALL.iter().map(|variance| variance.name()).collect(),
    Scale => Self::ALL.iter().map(|scale| scale.name()).collect(),
    Device => Self::NAMES.to_vec(),
    IndexKind => Self::ALL.iter().map(|kind| kind.name()).collect(),
    Precision => Self::ALL.iter().map(|precision| precision.name()).collect(),
    Measure => Self::ALL.iter().map(|measure| measure.name()).collect(),
    SetScore => Self::ALL.iter().map(|score| score.name()).collect(),
    // `Uses::of` is `None` for methods that are computed from the predictions of a NUQ model. They are not values of `fit --method`.
    MethodId => Self::ALL.iter().filter(|id| Uses::of(**id).is_some()).map(|id| id.name()).collect(),
    Header => Self::ALL.iter().map(|header| header.name()).collect(),
    Format => Self::ALL.iter().map(|format| format.name()).collect(),
    BandwidthWord => {
        let mut words = BandwidthRule::<Criterion>::names();
        words.extend(BandwidthRule::<SquaredError>::names());
        let mut seen = vec![];
        words.retain(|word| !seen.contains(word) && { seen.push(*word); true });
        words
    },
);

#[cfg(feature = "serve")]
words!(
    nuq_server::MetricsAccess => Self::ALL.iter().map(|access| access.name()).collect(),
    nuq_server::LogFormat => Self::ALL.iter().map(|format| format.name()).collect(),
    nuq_server::LogLevel => Self::ALL.iter().map(|level| level.name()).collect(),
);

/// The value of `--bandwidth`: a number, or the name of a rule for classification or for regression.
#[derive(Debug, Clone)]
pub(crate) struct BandwidthWord(String);

impl BandwidthWord {
    /// The rule for the task with the selection criterion `C`: classification or regression.
    ///
    /// # Errors
    /// [`UnknownChoice`] if the word belongs to the other task.
    pub(crate) fn rule<C: NamedCriterion>(&self) -> Result<BandwidthRule<C>, UnknownChoice> {
        self.0.parse()
    }
}

impl FromStr for BandwidthWord {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let value = Self(word.to_owned());
        match (value.rule::<Criterion>(), value.rule::<SquaredError>()) {
            (Err(_), Err(_)) => Err(UnknownChoice::new("bandwidth", word, Self::words()).or_number()),
            _ => Ok(value),
        }
    }
}

/// The clap parser of a type with [`Words`].
pub(crate) fn choice<T: Words>() -> Choice<T> {
    Choice(PhantomData)
}

pub(crate) struct Choice<T>(PhantomData<fn() -> T>);

impl<T> Clone for Choice<T> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<T: Words> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let word = value.to_string_lossy();
        word.parse().map_err(|unknown: UnknownChoice| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(argument) = argument {
                error.insert(ContextKind::InvalidArg, ContextValue::String(argument.to_string()));
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(word.clone().into_owned()));
            let number = unknown.or_number.then_some("NUMBER");
            let words = T::words().into_iter().chain(number).map(str::to_owned).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(words));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(T::words().into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_lists_each_word_of_both_tasks_once() {
        let expected =
            ["log_likelihood", "accuracy", "silverman", "scott", "isj", "adaptive", "squared_error"];
        assert_eq!(BandwidthWord::words(), expected);
    }

    /// Some methods are computed from the predictions of a NUQ model and cannot be fitted.
    #[test]
    fn the_error_of_an_unknown_method_lists_the_methods_that_can_be_fitted() {
        let method = clap::Arg::new("method").long("method").value_parser(choice::<MethodId>());
        let parsed = clap::Command::new("nuq").arg(method).try_get_matches_from(["nuq", "--method", "other"]);
        let text = parsed.unwrap_err().to_string();
        assert!(text.contains("knn_distance") && !text.contains("nuq_epistemic"), "{text}");
    }

    #[test]
    fn bandwidth_words_belong_to_their_task() {
        let accuracy: BandwidthWord = "accuracy".parse().unwrap();
        assert!(accuracy.rule::<Criterion>().is_ok());
        assert!(accuracy.rule::<SquaredError>().is_err());
        assert!("wide".parse::<BandwidthWord>().is_err());
        assert_eq!("0.5".parse::<BandwidthWord>().unwrap().rule::<SquaredError>(), Ok(0.5.into()));
    }
}
