//! Adaptive batching: requests that wait are computed together.
//!
//! Each model has one worker thread. It takes the waiting requests until they have [`MAX_ROWS`] rows, computes them together, and
//! answers. A batch therefore consists of the requests that arrived while the previous batch was computed. No timer is needed: a single
//! request on an idle server is computed at once. The results of a row do not depend on the other rows of its batch.
//!
//! A request that is dropped, because its client is gone or its time is over, is not computed. When all requests of a running batch are
//! dropped, the batch ends at its next check point (`nuq_neighbors::cancel`).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use nuq::calibrate::Predictor;
use nuq::{CancelToken, Embeddings, FittedModel, Model};
use tokio::sync::oneshot;

use crate::error::ApiError;
use crate::loaded_model::LoadedModel;
use crate::metrics::ModelMetrics;
use crate::results::{Plan, Results, Selection};
use crate::state::{ModelState, Observation, observe};

/// No further request is added to a batch that has this number of rows.
const MAX_ROWS: usize = 4096;

/// Rows to score.
pub(crate) struct Rows {
    pub(crate) embeddings: Embeddings<'static>,
    /// The logits of the network for these rows.
    pub(crate) logits: Option<Embeddings<'static>>,
}

impl Rows {
    /// Rows with optional logits, which must have the same number of rows.
    pub(crate) fn new(
        embeddings: Embeddings<'static>,
        logits: Option<Embeddings<'static>>,
    ) -> Result<Self, ApiError> {
        match &logits {
            Some(logits) if logits.len() != embeddings.len() => Err(ApiError::invalid(format!(
                "there are {} rows of logits for {} rows of embeddings: send one row of logits for each row",
                logits.len(),
                embeddings.len()
            ))),
            _ => Ok(Self { embeddings, logits }),
        }
    }
}

/// The queue of a model. Its worker ends when the queue is dropped.
pub(crate) struct Batcher {
    queue: Sender<Job>,
}

struct Job {
    model: Arc<LoadedModel>,
    rows: Rows,
    selection: Arc<Selection>,
    reply: oneshot::Sender<Result<(Results, u64), ApiError>>,
    ticket: Arc<Ticket>,
}

impl Batcher {
    /// Starts the worker of a model.
    pub(crate) fn start(
        name: &str,
        metrics: Arc<ModelMetrics>,
        state: Arc<ModelState>,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let worker = std::thread::Builder::new().name(format!("batch {name}"));
        worker.spawn(move || work(&jobs, &metrics, &state))?;
        Ok(Self { queue })
    }

    /// Adds rows to the queue.
    pub(crate) fn submit(&self, model: Arc<LoadedModel>, rows: Rows, selection: Arc<Selection>) -> Pending {
        let (reply, result) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        let pending = Pending { result, _leave: LeaveOnDrop(ticket.clone()) };
        // If the worker has ended, `send` drops the job with its `reply`, and `Pending::results` returns an internal error.
        let _ = self.queue.send(Job { model, rows, selection, reply, ticket });
        pending
    }
}

/// A submitted request, whose rows are in the queue or in a batch. Dropping it withdraws the request.
pub(crate) struct Pending {
    result: oneshot::Receiver<Result<(Results, u64), ApiError>>,
    _leave: LeaveOnDrop,
}

impl Pending {
    /// The results, and the version of the model that has computed them.
    pub(crate) async fn results(self) -> Result<(Results, u64), ApiError> {
        self.result.await.unwrap_or_else(|_| Err(ApiError::internal()))
    }
}

/// The state of a request: waiting, in a batch, or dropped.
#[derive(Default)]
struct Ticket(Mutex<Stage>);

#[derive(Default)]
enum Stage {
    #[default]
    Waiting,
    InBatch(Arc<Batch>),
    Dropped,
}

/// A running batch.
struct Batch {
    /// Number of requests that still wait for the result.
    requests: AtomicUsize,
    token: CancelToken,
}

impl Batch {
    /// A batch that requests can enter. Until [`close`](Self::close) it counts one more request, so that it is not cancelled before all its
    /// requests have entered.
    fn open() -> Arc<Self> {
        Arc::new(Self { requests: AtomicUsize::new(1), token: CancelToken::new() })
    }

    /// Closes the batch: no further request enters it. Returns false if no request waits for the result, because all were dropped.
    fn close(&self) -> bool {
        self.requests.fetch_sub(1, Ordering::Relaxed) > 1
    }
}

impl Ticket {
    /// Enters a batch; false if the request was dropped.
    fn enter(&self, batch: &Arc<Batch>) -> bool {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Dropped) {
            return false;
        }
        batch.requests.fetch_add(1, Ordering::Relaxed);
        *stage = Stage::InBatch(batch.clone());
        true
    }

    fn leave(&self) {
        let stage =
            std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Stage::Dropped);
        if let Stage::InBatch(batch) = stage
            && batch.requests.fetch_sub(1, Ordering::Relaxed) == 1
        {
            batch.token.cancel();
        }
    }
}

struct LeaveOnDrop(Arc<Ticket>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn work(jobs: &Receiver<Job>, metrics: &ModelMetrics, state: &ModelState) {
    while let Ok(first) = jobs.recv() {
        let mut rows = first.rows.embeddings.len();
        let mut waiting = vec![first];
        while rows < MAX_ROWS
            && let Ok(job) = jobs.try_recv()
        {
            rows += job.rows.embeddings.len();
            waiting.push(job);
        }
        // The model may have been loaded again while requests waited. All requests of a group use the same loaded model, and either all or
        // none of them have logits.
        while let Some(first) = waiting.first() {
            let (model, has_logits) = (first.model.clone(), first.rows.logits.is_some());
            let is_same =
                |job: &Job| Arc::ptr_eq(&job.model, &model) && job.rows.logits.is_some() == has_logits;
            let (group, others) = waiting.into_iter().partition(is_same);
            waiting = others;
            run(&model, group, metrics, state);
        }
    }
}

/// Computes and answers requests of one model.
fn run(model: &LoadedModel, mut jobs: Vec<Job>, metrics: &ModelMetrics, state: &ModelState) {
    let batch = Batch::open();
    jobs.retain(|job| job.ticket.enter(&batch));
    if !batch.close() {
        return;
    }
    let start = Instant::now();
    let compute = || {
        batch.token.run(|| {
            let model = match model.read() {
                Ok(model) => model,
                Err(error) => {
                    let error = ApiError::from(error);
                    return (jobs.iter().map(|_| Err(error.clone())).collect(), vec![], 0);
                }
            };
            let (results, observations) = compute(&model, &jobs);
            let version = model.version();
            let results = results.into_iter().map(|result| result.map(|results| (results, version)));
            (results.collect::<Vec<_>>(), observations, version)
        })
    };
    let (results, observations, version) = match catch_unwind(AssertUnwindSafe(compute)) {
        Ok(Ok(results)) => results,
        // All requests of the batch were dropped.
        Ok(Err(nuq::Cancelled)) => return metrics.cancelled(),
        Err(_) => {
            tracing::error!("the computation of a batch panicked");
            (jobs.iter().map(|_| Err(ApiError::internal())).collect(), vec![], 0)
        }
    };
    let rows = jobs.iter().zip(&results).filter(|(_, result)| result.is_ok());
    metrics.batch(rows.map(|(job, _)| job.rows.embeddings.len()).sum(), start.elapsed());
    for (job, result) in jobs.into_iter().zip(results) {
        // An error means that the request was dropped in the meantime.
        let _ = job.reply.send(result);
    }
    metrics.decided(&observations);
    if !observations.is_empty() {
        state.record(observations, version);
    }
}

/// Selects the results of one request: those of the given rows of the batch, in the columns of the plan.
type ResultsOfRows<'a> = dyn Fn(&Plan, Range<usize>) -> Result<Results, ApiError> + 'a;

/// The results of each request, and the observations (predictions that the state records) of the rows of requests that need predictions.
/// Either all requests have logits, or none of them.
fn compute(model: &Model<'_>, jobs: &[Job]) -> (Vec<Result<Results, ApiError>>, Vec<Observation>) {
    let mut plans: Vec<Result<Plan, ApiError>> = jobs.iter().map(|job| plan(model, job)).collect();
    let valid: Vec<&Job> =
        jobs.iter().zip(&plans).filter(|(_, plan)| plan.is_ok()).map(|(job, _)| job).collect();
    if valid.is_empty() {
        let errors = plans.into_iter().map(|plan| Err(plan.expect_err("no plan is valid")));
        return (errors.collect(), vec![]);
    }
    let lengths = valid.iter().map(|job| job.rows.embeddings.len());
    let predicted: Vec<(bool, usize)> =
        plans.iter().flatten().map(Plan::needs_predictions).zip(lengths).collect();
    let needs_predictions = predicted.iter().any(|(is_predicted, _)| *is_predicted);
    let mut first = 0;
    let mut parts = valid.iter().map(|job| {
        let rows = first..first + job.rows.embeddings.len();
        first = rows.end;
        rows
    });
    let mut each = |of: &ResultsOfRows<'_>| {
        let result = |plan: &mut Result<Plan, ApiError>| match plan {
            Ok(plan) => of(plan, parts.next().expect("there is one part for each valid request")),
            Err(error) => Err(error.clone()),
        };
        plans.iter_mut().map(result).collect()
    };
    let mut observations = vec![];
    let results = (|| -> Result<Vec<Result<Results, ApiError>>, nuq::Error> {
        let queries = joined(valid.iter().map(|job| &job.rows.embeddings))?;
        let logits = match valid.iter().map(|job| job.rows.logits.as_ref()).collect::<Option<Vec<_>>>() {
            Some(logits) => Some(joined(logits.into_iter())?),
            None => None,
        };
        Ok(match model {
            _ if !needs_predictions => {
                let neighbors = model.neighbors_of(&queries, model.n_neighbors())?;
                each(&|plan, rows| plan.of_search(model, &neighbors, rows))
            }
            Model::Classifier(model) => {
                let predictions = match &logits {
                    Some(logits) => model.predict_with(&queries, &model.network(logits)?)?,
                    None => model.predict(&queries)?,
                };
                let predictor = if logits.is_some() { Predictor::Network } else { Predictor::Nuq };
                observations = observe::of_classifier(model, &queries, &predictions, predictor);
                each(&|plan, rows| plan.of_classifier(model, &predictions, rows))
            }
            Model::Regressor(model) => {
                let estimates = model.predict(&queries)?;
                observations = observe::of_regressor(model, &queries, &estimates);
                each(&|plan, rows| plan.of_regressor(model, &estimates, rows))
            }
        })
    })();
    let results = results.unwrap_or_else(|error| failed_results(plans, &failure(error)));
    // If one request needs predictions, all rows of the batch are predicted. Only the rows of requests that need predictions are recorded,
    // so that the record of a request does not depend on the other requests of its batch.
    retain_parts(&mut observations, &predicted);
    (results, observations)
}

/// Removes parts of a list. Each part is given by whether it is retained, and by its length.
fn retain_parts<T>(values: &mut Vec<T>, parts: &[(bool, usize)]) {
    let mut retained =
        parts.iter().flat_map(|&(is_retained, length)| std::iter::repeat_n(is_retained, length));
    values.retain(|_| retained.next().unwrap_or_default());
}

/// The results of a failed batch. An invalid request keeps its own error.
fn failed_results<P, R>(plans: Vec<Result<P, ApiError>>, failed: &ApiError) -> Vec<Result<R, ApiError>> {
    plans.into_iter().map(|plan| Err(plan.err().unwrap_or_else(|| failed.clone()))).collect()
}

/// The error of all valid requests of a failed batch. Their rows were checked before, so the rows are not the cause.
fn failure(error: nuq::Error) -> ApiError {
    use nuq_neighbors::Error::{Damaged, Device, FileChanged, ShardSearch};
    match error {
        nuq::Error::Neighbors(Device { .. } | ShardSearch { .. } | Damaged { .. } | FileChanged { .. }) => {
            error.into()
        }
        error => {
            tracing::error!(%error, "a batch failed");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "model_error", error.to_string())
        }
    }
}

/// Checks the rows of a request, and completes its selection of columns with the defaults of the model.
fn plan(model: &Model<'_>, job: &Job) -> Result<Plan, ApiError> {
    let (columns, expected) = (job.rows.embeddings.dim(), model.index().dim());
    if columns != expected {
        return Err(ApiError::invalid(format!(
            "the rows have {columns} columns, but the model was fitted to {expected}: use embeddings of the same layer"
        )));
    }
    if let Some(logits) = &job.rows.logits {
        let Model::Classifier(model) = model else {
            return Err(ApiError::invalid("a regressor uses no logits: send only embeddings"));
        };
        let classes = model.classes().len();
        if logits.dim() != classes {
            return Err(ApiError::invalid(format!(
                "the logits have {} columns: the model has {classes} classes",
                logits.dim()
            )));
        }
    }
    Plan::new(&job.selection, model, job.rows.logits.is_some())
}

/// Concatenates the rows of all parts. The parts have the same number of columns.
fn joined<'e>(
    mut parts: impl ExactSizeIterator<Item = &'e Embeddings<'static>>,
) -> Result<Embeddings<'static>, nuq::Error> {
    let first = parts.next().expect("a batch has requests").clone();
    if parts.len() == 0 {
        return Ok(first);
    }
    let mut values = first.as_slice().to_vec();
    parts.for_each(|part| values.extend_from_slice(part.as_slice()));
    Ok(Embeddings::new(values, first.dim())?)
}

#[cfg(test)]
mod tests {
    use nuq::NuqClassifier;

    use super::*;
    use crate::results::Output;

    #[test]
    fn a_batch_is_cancelled_when_all_its_requests_are_dropped() {
        let batch = Batch::open();
        let tickets = [Ticket::default(), Ticket::default()];
        assert!(tickets.iter().all(|ticket| ticket.enter(&batch)));
        assert!(batch.close());
        tickets[0].leave();
        assert!(!batch.token.is_cancelled());
        tickets[1].leave();
        assert!(batch.token.is_cancelled());
        assert!(!tickets[1].enter(&Batch::open()), "a dropped request enters no batch");
    }

    #[test]
    fn a_batch_is_not_computed_if_its_requests_are_dropped_before_it_begins() {
        assert!(!Batch::open().close(), "no request has entered");
        let (batch, tickets) = (Batch::open(), [Ticket::default(), Ticket::default()]);
        for ticket in &tickets {
            assert!(ticket.enter(&batch));
            ticket.leave();
        }
        assert!(!batch.close());
    }

    #[test]
    fn only_the_retained_parts_of_a_list_remain() {
        let mut rows = vec!["a", "a", "b", "c", "c"];
        retain_parts(&mut rows, &[(true, 2), (false, 1), (true, 2)]);
        assert_eq!(rows, ["a", "a", "c", "c"]);
    }

    #[test]
    fn rows_of_requests_for_neighbors_only_are_not_recorded() {
        let rows = |first: usize, count: usize| {
            let row = |i: usize| [i as f32, (i * i % 7) as f32];
            Embeddings::new((first..first + count).flat_map(row).collect::<Vec<f32>>(), 2).unwrap()
        };
        let labels: Vec<&str> = (0..20).map(|i| ["a", "b"][i % 2]).collect();
        let model = NuqClassifier::params().n_neighbors(3).fit(&rows(0, 20), &labels).unwrap();
        let model = Arc::new(LoadedModel::new("m", model.into(), 1, None));
        let job = |first: usize, count: usize, outputs: Option<Vec<Output>>| Job {
            model: model.clone(),
            rows: Rows { embeddings: rows(first, count), logits: None },
            selection: Arc::new(Selection { outputs, ..Selection::default() }),
            reply: oneshot::channel().0,
            ticket: Arc::default(),
        };
        let neighbors = || Some(vec![Output::NeighborIds]);
        let jobs = [job(30, 2, neighbors()), job(40, 3, None), job(50, 1, neighbors()), job(60, 1, None)];
        let (results, observations) = compute(&model.read().unwrap(), &jobs);
        assert!(results.iter().all(Result::is_ok));
        let recorded: Vec<f32> = observations.iter().map(|observation| observation.embedding[0]).collect();
        assert_eq!(recorded, [40.0, 41.0, 42.0, 60.0]);
    }

    #[test]
    fn invalid_requests_of_a_failed_batch_keep_their_errors() {
        let plans = vec![Ok(()), Err(ApiError::invalid("the rows have 3 columns"))];
        let failed = failure(nuq_neighbors::Error::RowsNotStored.into());
        let results: Vec<Result<(), ApiError>> = failed_results(plans, &failed);
        let codes: Vec<&str> = results.into_iter().map(|result| result.unwrap_err().code).collect();
        assert_eq!(codes, ["model_error", "invalid_request"]);
    }

    #[test]
    fn failed_searches_and_damaged_files_have_the_same_errors_in_a_batch_as_without_one() {
        use nuq_neighbors::Error::{Damaged, Device, FileChanged, RowsNotStored, ShardSearch};
        let of = |error: nuq_neighbors::Error| {
            let ApiError { status, code, retry_after, .. } = failure(error.into());
            (status.as_u16(), code, retry_after)
        };
        let problem = || "it is lost".to_owned();
        assert_eq!(of(Device { problem: problem() }), (503, "search_failed", Some(1)));
        assert_eq!(of(ShardSearch { problem: problem() }), (503, "search_failed", Some(1)));
        let damaged = Damaged { section: "rows".to_owned(), problem: problem() };
        assert_eq!(of(damaged), (500, "internal_error", None));
        assert_eq!(of(FileChanged { problem: problem() }), (500, "internal_error", None));
        assert_eq!(of(RowsNotStored), (500, "model_error", None));
    }
}
