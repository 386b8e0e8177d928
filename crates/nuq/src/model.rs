//! The common interface of fitted models, and a type for a model of either task.

use std::collections::BTreeMap;

use nuq_neighbors::{Embeddings, IndexChoice, NeighborIndex, Neighbors};

use crate::calibrate::{Rules, Threshold, equal_training_rows};
use crate::column_names;
use crate::error::check_lengths;
use crate::parts::{GaussianParts, SmootherParts};
use crate::{Bandwidth, Error, FittedScale, Kernel, NuqClassifier, NuqRegressor, SearchSpace};

pub(crate) mod sealed {
    use crate::calibrate::Rules;
    use crate::smoother::{Groups, KernelSmoother};

    pub trait Sealed {
        fn smoother(&self) -> &KernelSmoother<'_>;
        fn groups(&self) -> Groups<'_>;
        fn rules_ref(&self) -> &Rules;
        fn rules_mut_ref(&mut self) -> &mut Rules;
        fn column_names_mut(&mut self) -> &mut Option<Vec<String>>;
        fn prior(&self) -> f64;
    }
}

/// Options, learned values and thresholds of a fitted model: [`NuqClassifier`], [`NuqRegressor`] or [`Model`].
///
/// ```
/// use nuq::{Embeddings, FittedModel, NuqRegressor};
///
/// let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]])?;
/// let model = NuqRegressor::params().n_neighbors(2).bandwidth(0.5).fit(&x, &[0.0, 1.0, 4.0])?;
/// assert_eq!(model.n_neighbors(), 2);
/// assert_eq!(model.neighbors_of(&Embeddings::from_rows(&[[1.9]])?, 1)?.ids(0), [2]);
/// # Ok::<(), nuq::Error>(())
/// ```
pub trait FittedModel: sealed::Sealed {
    /// The index over the training rows, in the space that the model searches: rows are divided by their norms if the model
    /// normalizes them, and coordinates by their bandwidths if the model has one bandwidth per dimension.
    fn index(&self) -> &dyn NeighborIndex {
        &*self.smoother().index
    }

    /// The kind of the index with its reason, and the device of the last search ([`NeighborIndex::device`]).
    /// [`NeighborIndex::describe`] gives the measured recall.
    fn index_choice(&self) -> IndexChoice {
        IndexChoice { device: self.index().device(), ..self.smoother().choice.clone() }
    }

    /// `K`, the number of neighbors over which every sum is computed.
    fn n_neighbors(&self) -> usize {
        self.smoother().n_neighbors
    }

    /// The kernel.
    fn kernel(&self) -> Kernel {
        self.smoother().kernel
    }

    /// The bandwidth of class probabilities or of the regression mean.
    fn bandwidth(&self) -> &Bandwidth {
        &self.smoother().bandwidth
    }

    /// The bandwidth of the kernel density; `None` if the density uses [`bandwidth`](Self::bandwidth), or is `gmm`, which has no
    /// kernel. It applies in the space that the model searches. There each coordinate is already divided by its bandwidth if the model
    /// has one bandwidth per dimension.
    fn density_bandwidth(&self) -> Option<f64> {
        self.smoother().density.bandwidth()
    }

    /// The dimension in the constants of density and kernel: the intrinsic dimension of the data for a radial kernel and the
    /// density `kde` or `auto`, unless the scale is `ambient`; otherwise the number of columns.
    fn dimension(&self) -> f64 {
        self.smoother().dimension
    }

    /// The formula of `n(x)`, the number of training rows that support an estimate, with its learned values.
    fn scale(&self) -> FittedScale {
        self.smoother().scale
    }

    /// Whether rows and queries are divided by their Euclidean norm.
    fn is_normalized(&self) -> bool {
        self.smoother().normalize
    }

    /// `w`, the weight of the prior. A prior of weight 1 counts as one training row at distance zero from the query.
    fn prior_weight(&self) -> f64 {
        self.prior()
    }

    /// Options and learned values as plain data, without labels, targets and index.
    fn smoother_parts(&self) -> SmootherParts {
        self.smoother().parts()
    }

    /// The Gaussians of the density as plain arrays, as a file without rows stores them; `None` if the density has
    /// none. If the model comes from a file, this call may first fit them to the training rows.
    ///
    /// # Errors
    /// An index that comes from a damaged file.
    fn gaussian_parts(&self) -> Result<Option<GaussianParts>, Error> {
        self.smoother().gaussian_parts(self.groups())
    }

    /// The Gaussians of the density as plain arrays, if they take at most `max_bytes` and need not be fitted first: they
    /// were fitted together with the model, or restored from a file. A file with rows stores them, so that the first
    /// prediction after opening the file need not fit them. `None` also if their arrays would contain training rows.
    fn small_gaussian_parts(&self, max_bytes: usize) -> Option<GaussianParts> {
        self.smoother().small_gaussian_parts(max_bytes)
    }

    /// Checks that predictions of this model need only the query and the ids and distances of its neighbors, not their coordinates.
    /// Such a model can be used without its training rows.
    ///
    /// # Errors
    /// [`Error::KernelNeedsRows`].
    fn check_without_rows(&self) -> Result<(), Error> {
        self.kernel().check_without_rows()
    }

    /// The `k` nearest training rows of each query, in the space that the model searches.
    ///
    /// # Errors
    /// A dimension mismatch, or `k = 0`.
    fn neighbors_of(&self, queries: &Embeddings<'_>, k: usize) -> Result<Neighbors, Error> {
        let smoother = self.smoother();
        Ok(smoother.index.search(&smoother.prepare(queries), k)?)
    }

    /// The squared distances of each query to given training rows, in the space that the model searches. `ids` contains
    /// `k` ids per query. The result can be passed to `predict_from`.
    ///
    /// # Errors
    /// A dimension mismatch, `k = 0`, a number of ids other than `k` per query, or an id that names no row or occurs
    /// twice for the same query.
    fn measure(&self, queries: &Embeddings<'_>, k: usize, ids: &[u32]) -> Result<Neighbors, Error> {
        let smoother = self.smoother();
        Ok(smoother.index.rows().measure(&smoother.prepare(queries), k, ids)?)
    }

    /// The space that the model searches. It can be used without the model.
    fn search_space(&self) -> SearchSpace {
        let rows = self.index().rows();
        let scale = rows.scale().map(<[f64]>::to_vec);
        SearchSpace { dim: rows.dim(), is_normalized: self.smoother().normalize, scale }
    }

    /// Selects `count` of the given rows to label next, by distances in the space that the model searches; see [`SearchSpace::suggest`].
    ///
    /// # Errors
    /// A dimension mismatch, or [`Error::LengthMismatch`] unless there is one uncertainty per row.
    fn suggest(&self, rows: &Embeddings<'_>, uncertainty: &[f64], count: usize) -> Result<Vec<usize>, Error> {
        self.search_space().suggest(rows, uncertainty, count)
    }

    /// The number of queries that equal a training row, exactly or up to the rounding of its coordinates to six
    /// significant digits or six decimals, as in a text file. `neighbors` are the neighbors of the queries, for example
    /// from their predictions; with one neighbor per query, only exactly equal rows are recognized, because the
    /// distance to a rounded row is compared with the distances to further neighbors.
    fn equal_training_rows(&self, queries: &Embeddings<'_>, neighbors: &Neighbors) -> usize {
        let smoother = self.smoother();
        equal_training_rows(smoother, &smoother.prepare(queries), neighbors)
    }

    /// The sample weight of each id; `None` if all are 1. The value of an id that names no row has no meaning.
    fn sample_weights(&self) -> Option<&[f64]> {
        self.smoother().sample_weights.by_id()
    }

    /// The names of the columns of the training rows; `None` if they have none.
    fn column_names(&self) -> Option<&[String]> {
        self.smoother().column_names.as_deref()
    }

    /// Stores the names of the columns of the training rows. They are saved with the model; predictions do not use them.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there is not one name per column, [`Error::RepeatedColumnName`] if two names are equal.
    ///
    /// ```
    /// use nuq::{Embeddings, FittedModel, NuqRegressor};
    /// let x = Embeddings::from_rows(&[[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]])?;
    /// let mut model = NuqRegressor::params().n_neighbors(2).bandwidth(0.5).fit(&x, &[0.0, 1.0, 4.0])?;
    /// model.set_column_names(Some(vec!["width".to_owned(), "height".to_owned()]))?;
    /// assert!(model.check_column_names(&["width", "height"]).is_ok());
    /// assert!(model.check_column_names(&["height", "width"]).is_err());
    /// # Ok::<(), nuq::Error>(())
    /// ```
    fn set_column_names(&mut self, names: Option<Vec<String>>) -> Result<(), Error> {
        if let Some(names) = &names {
            check_lengths(("column names", names.len()), ("columns", self.index().dim()))?;
            column_names::check_distinct(names)?;
        }
        *self.column_names_mut() = names;
        Ok(())
    }

    /// Checks the column names of other rows. If the training rows have no names, every list is valid, except the
    /// numbers 0, 1, 2, … in another order.
    ///
    /// # Errors
    /// [`Error::ColumnNames`] for other names or another order.
    fn check_column_names<S: AsRef<str>>(&self, names: &[S]) -> Result<(), Error>
    where
        Self: Sized,
    {
        column_names::check(self.column_names(), names)
    }

    /// The thresholds, by name.
    fn thresholds(&self) -> &BTreeMap<String, Threshold> {
        &self.rules_ref().thresholds
    }

    /// Stores a threshold with the model and returns the former threshold of this name. [`Rules::set_threshold`] also
    /// stores the scores of the held-out rows.
    fn set_threshold(&mut self, name: &str, threshold: Threshold) -> Option<Threshold> {
        let rules = self.rules_mut_ref();
        rules.remove_held_out_scores(name);
        rules.thresholds.insert(name.to_owned(), threshold)
    }

    /// Removes a threshold and returns it.
    fn remove_threshold(&mut self, name: &str) -> Option<Threshold> {
        let rules = self.rules_mut_ref();
        rules.remove_held_out_scores(name);
        rules.thresholds.remove(name)
    }

    /// Thresholds, rules for prediction sets and intervals, and the temperature of the logits.
    fn rules(&self) -> &Rules {
        self.rules_ref()
    }

    /// Mutable access to [`rules`](Self::rules).
    fn rules_mut(&mut self) -> &mut Rules {
        self.rules_mut_ref()
    }
}

impl FittedModel for NuqClassifier<'_> {}
impl FittedModel for NuqRegressor<'_> {}
impl FittedModel for Model<'_> {}

/// A fitted model of either task, for example from a model file.
#[derive(Debug)]
pub enum Model<'a> {
    /// A classifier.
    Classifier(NuqClassifier<'a>),
    /// A regressor.
    Regressor(NuqRegressor<'a>),
}

impl<'a> Model<'a> {
    /// Takes the index out of the model.
    #[must_use]
    pub fn into_index(self) -> Box<dyn NeighborIndex + 'a> {
        match self {
            Model::Classifier(model) => model.smoother.index,
            Model::Regressor(model) => model.smoother.index,
        }
    }
}

impl<'a> From<NuqClassifier<'a>> for Model<'a> {
    fn from(model: NuqClassifier<'a>) -> Self {
        Model::Classifier(model)
    }
}

impl<'a> From<NuqRegressor<'a>> for Model<'a> {
    fn from(model: NuqRegressor<'a>) -> Self {
        Model::Regressor(model)
    }
}

impl sealed::Sealed for Model<'_> {
    fn smoother(&self) -> &crate::smoother::KernelSmoother<'_> {
        match self {
            Model::Classifier(model) => model.smoother(),
            Model::Regressor(model) => model.smoother(),
        }
    }

    fn groups(&self) -> crate::smoother::Groups<'_> {
        match self {
            Model::Classifier(model) => sealed::Sealed::groups(model),
            Model::Regressor(model) => sealed::Sealed::groups(model),
        }
    }

    fn rules_ref(&self) -> &Rules {
        match self {
            Model::Classifier(model) => model.rules_ref(),
            Model::Regressor(model) => model.rules_ref(),
        }
    }

    fn rules_mut_ref(&mut self) -> &mut Rules {
        match self {
            Model::Classifier(model) => model.rules_mut_ref(),
            Model::Regressor(model) => model.rules_mut_ref(),
        }
    }

    fn column_names_mut(&mut self) -> &mut Option<Vec<String>> {
        match self {
            Model::Classifier(model) => model.column_names_mut(),
            Model::Regressor(model) => model.column_names_mut(),
        }
    }

    fn prior(&self) -> f64 {
        match self {
            Model::Classifier(model) => model.prior(),
            Model::Regressor(model) => model.prior(),
        }
    }
}
