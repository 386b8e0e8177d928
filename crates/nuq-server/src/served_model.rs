//! A served model, its changes, and its atomic replacement.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use axum::http::StatusCode;
use nuq::{Device, FittedModel, Label, LabelIssue, Model, NuqClassifier, NuqRegressor};
use nuq_io::ModelFile;
use tokio::sync::{OwnedMutexGuard, watch};

use crate::batch::{Batcher, Pending, Rows};
use crate::error::{ApiError, Error};
use crate::file_rows::FileRows;
use crate::limits::Memory;
use crate::loaded_model::{LoadedModel, ModelGuard};
use crate::long_read::LongRead;
use crate::metrics::Metrics;
use crate::results::{Results, Selection};
use crate::rows::{Blocks, HeldBlocks};
use crate::state::{AppliedChange, Change, ModelState, State, StateError, open_verified};
use crate::{Config, ModelSource};

/// The label issues of one version of a classifier.
pub(crate) struct LabelIssues {
    version: u64,
    /// The classes of this version. Later versions may have other classes.
    pub(crate) classes: Vec<Label>,
    pub(crate) issues: Vec<LabelIssue>,
}

/// The label issues that were computed last; `None` before the first computation.
type CachedIssues = Option<Arc<LabelIssues>>;

/// Why a model was not reloaded, or not completely.
#[derive(Debug)]
pub(crate) enum ReloadError {
    /// The former model is still served.
    NotReplaced(Error),
    /// The new model is served, but the disk may not have it: after a crash, the server may not start with the new file.
    NotWritten(StateError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReplaced(error) => write!(f, "{error}; the former model is still served"),
            Self::NotWritten(error) => {
                write!(
                    f,
                    "{error}; the new model is served, and the changes of the former model are discarded"
                )
            }
        }
    }
}

impl From<ReloadError> for ApiError {
    fn from(error: ReloadError) -> Self {
        let message = error.to_string();
        match error {
            ReloadError::NotReplaced(Error::State(cause)) | ReloadError::NotWritten(cause) => {
                Self { message, ..cause.into() }
            }
            ReloadError::NotReplaced(_) => Self::new(StatusCode::CONFLICT, "cannot_reload", message),
        }
    }
}

/// A served model: its name and file, the current model in memory, its queue, and its state.
pub(crate) struct ServedModel {
    pub(crate) name: String,
    /// The file of the model.
    pub(crate) path: PathBuf,
    device: Device,
    has_pictures: bool,
    current: RwLock<Arc<LoadedModel>>,
    /// The latest version that was written to the disk, or whose write has failed. Clients see no later version: a crash could lose its
    /// change, and another change would get the same version.
    written: watch::Sender<u64>,
    pub(crate) batcher: Batcher,
    pub(crate) state: Arc<ModelState>,
    /// Locked during a reload. Of two concurrent reloads, one could otherwise replace the model by an older file than the other.
    reload: Mutex<()>,
    /// The label issues (training rows whose labels may be wrong) that were computed last. Locked while they are computed. Requests wait for
    /// this lock without a thread and before they count as running requests.
    label_issues: Arc<tokio::sync::Mutex<CachedIssues>>,
    /// The computation of label issues. A change of the model interrupts it and does not wait for it.
    long_read: LongRead,
}

impl ServedModel {
    pub(crate) fn open(
        source: &ModelSource,
        (config, state): (&Config, &State),
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let device = config.device;
        let has_pictures = config.pictures.iter().any(|pictures| pictures.is_of(&source.name));
        let (model, file_rows, state) = state.load(&source.name, &source.path, device, has_pictures)?;
        let state = Arc::new(state);
        log_opened(source, &model);
        let batcher = Batcher::start(&source.name, metrics.of_model(&source.name), state.clone())
            .map_err(Error::Threads)?;
        Ok(Self {
            name: source.name.clone(),
            path: source.path.clone(),
            device,
            has_pictures,
            current: RwLock::new(Arc::new(LoadedModel::new(
                &source.name,
                model,
                state.first_version,
                file_rows,
            ))),
            written: watch::Sender::new(state.first_version),
            batcher,
            state,
            reload: Mutex::default(),
            label_issues: Arc::default(),
            long_read: LongRead::default(),
        })
    }

    /// Changes the model; see [`ModelState::change`]. Blocks until the change is on the disk.
    pub(crate) fn change(
        &self,
        prepare: impl FnOnce(&Model<'_>) -> Result<Change, ApiError>,
    ) -> Result<AppliedChange, ApiError> {
        let _pending = self.long_read.interrupt();
        let applied = self.shown_after_panic(|| self.state.change(|| self.current(), prepare))?;
        self.acknowledge(applied)
    }

    /// Reverses a change. Blocks until the reversal is on the disk.
    pub(crate) fn undo(&self, change: u64) -> Result<AppliedChange, ApiError> {
        let _pending = self.long_read.interrupt();
        let applied = self.shown_after_panic(|| self.state.undo(|| self.current(), change))?;
        self.acknowledge(applied)
    }

    /// Calls `work`, which changes the model. If it panics after the change, the change is in the journal and in the model, so its version
    /// is shown. Otherwise all requests would wait for it without end.
    fn shown_after_panic<T>(&self, work: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            // If the write fails, all later changes are refused.
            let _ = self.state.sync_all();
            self.raise_version(self.current().version());
            resume_unwind(panic)
        })
    }

    fn acknowledge(&self, applied: AppliedChange) -> Result<AppliedChange, ApiError> {
        let synced = self.state.sync(&applied);
        // If the write fails, the model has the change nevertheless, and all later changes are refused.
        self.raise_version(applied.version);
        synced?;
        if applied.is_log_long {
            self.state.shorten_journal(|| self.current());
        }
        Ok(applied)
    }

    /// Waits until no other request computes label issues; see [`label_issues`](Self::label_issues).
    pub(crate) async fn cached_label_issues(&self) -> OwnedMutexGuard<CachedIssues> {
        self.label_issues.clone().lock_owned().await
    }

    /// The label issues of a classifier. They are computed once for each version, so only the first request takes long. Blocks until
    /// they are computed. A computation that a change interrupts begins again, but not after the deadline; `None` is then returned.
    pub(crate) fn label_issues(
        &self,
        mut cached: OwnedMutexGuard<CachedIssues>,
        deadline: Instant,
    ) -> Result<Option<Arc<LabelIssues>>, ApiError> {
        if let Some(issues) = &*cached
            && issues.version == self.current().read()?.version()
        {
            return Ok(Some(issues.clone()));
        }
        while let Some(token) = self.long_read.begin(deadline) {
            let loaded = self.current();
            let issues = token.run(|| {
                let model = loaded.read()?;
                match &*model {
                    Model::Classifier(classifier) => Ok(Arc::new(LabelIssues {
                        version: model.version(),
                        classes: classifier.classes().labels().to_vec(),
                        issues: classifier.label_issues()?,
                    })),
                    Model::Regressor(_) => {
                        Err(ApiError::invalid("label issues require a classifier: a regressor has no labels"))
                    }
                }
            });
            // A change of the model cancels the computation. It begins again with the changed model after the change.
            if let Ok(issues) = issues {
                return Ok(Some(cached.insert(issues?).clone()));
            }
        }
        Ok(None)
    }

    /// The model that answers new requests. A request uses the same model until its end, even if another model replaces it meanwhile.
    pub(crate) fn current(&self) -> Arc<LoadedModel> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest version that clients see.
    pub(crate) fn version(&self) -> u64 {
        *self.written.borrow()
    }

    /// Shows a version to clients. Of two concurrent changes, the later one may call this first, so the version is never lowered.
    fn raise_version(&self, version: u64) {
        self.written.send_if_modified(|written| {
            let is_later = version > *written;
            *written = version.max(*written);
            is_later
        });
    }

    /// Waits until clients may see a version of the model, because its change is on the disk.
    async fn wait_for_version(&self, version: u64) {
        // An error is not possible: the sender is a part of `self`.
        let _ = self.written.subscribe().wait_for(|written| *written >= version).await;
    }

    /// Reads the current model on a thread for blocking work, because a change of the model can block the read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ModelGuard<'_>) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let current = self.current();
        let read = move || {
            let model = current.read()?;
            Ok((read(&model), model.version()))
        };
        let result: Result<_, StateError> =
            tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::internal())?;
        let (value, version) = result?;
        self.wait_for_version(version).await;
        Ok(value)
    }

    /// The results of submitted rows, and the version of the model that has computed them.
    pub(crate) async fn results(&self, pending: Pending) -> Result<(Results, u64), ApiError> {
        let (results, version) = pending.results().await?;
        self.wait_for_version(version).await;
        Ok((results, version))
    }

    /// The results of rows in memory, and the version of the model that has computed them. Long requests are computed in blocks, so that
    /// other requests are computed in between. It is an error if the model is changed in between.
    pub(crate) async fn score(
        &self,
        model: &Arc<LoadedModel>,
        rows: Rows,
        selection: Selection,
    ) -> Result<(Results, u64), ApiError> {
        let selection = Arc::new(selection);
        // The caller holds the memory of the body, which has at least half of the bytes of the rows.
        let mut blocks = HeldBlocks::new(rows, Memory::default());
        let mut all: Option<(Results, u64)> = None;
        while let Some(block) = blocks.next()? {
            let pending = self.batcher.submit(model.clone(), block, selection.clone());
            let (results, version) = self.results(pending).await?;
            match &mut all {
                Some((_, first)) if *first != version => return Err(model_changed()),
                Some((all, _)) => all.append(results),
                None => all = Some((results, version)),
            }
        }
        Ok(all.expect("a request has at least one block"))
    }

    /// Opens the file again. If the file has changed, its model replaces the served one, and the changes of the former model are
    /// discarded. Returns the version of the model and the number of discarded changes.
    pub(crate) fn reload(&self) -> Result<(u64, usize), ReloadError> {
        let source = ModelSource { name: self.name.clone(), path: self.path.clone() };
        self.reload_from(|| open_model(&source, self.device))
    }

    fn reload_from(
        &self,
        open: impl FnOnce() -> Result<ModelFile, Error>,
    ) -> Result<(u64, usize), ReloadError> {
        let _reload = self.reload.lock().unwrap_or_else(PoisonError::into_inner);
        let file = open().map_err(ReloadError::NotReplaced)?;
        let (fingerprint, rules) = (file.fingerprint(), file.model.rules().clone());
        let _pending = self.long_read.interrupt();
        // `replace` is called only if the file has changed, so the rows of an unchanged file are not hashed. Running requests are
        // completed with the former model.
        let mut opened = Some(file.model);
        let mut replaced = None;
        let replace = |version| {
            self.serve(opened.take(), version);
            replaced = Some(version);
        };
        let discarded = self.shown_after_panic(|| self.state.replace(fingerprint, &rules, replace));
        // The model is replaced even if the last write to the disk has failed.
        if let Some(version) = replaced {
            self.raise_version(version);
        }
        let discarded = discarded.map_err(|error| match replaced {
            Some(_) => ReloadError::NotWritten(error),
            None => ReloadError::NotReplaced(error.into()),
        })?;
        if discarded.is_none() {
            self.state.between_changes(|| self.replace_lost_rows(opened));
        }
        let version = self.version();
        match discarded {
            None => tracing::info!(model = self.name, version, "the model file has not changed"),
            Some(0) => tracing::info!(model = self.name, version, "model reloaded"),
            Some(changes) => tracing::warn!(
                model = self.name,
                version,
                changes,
                "model reloaded: the file has replaced the changes of the former model"
            ),
        }
        Ok((version, discarded.unwrap_or(0)))
    }

    /// Makes `model` the served model.
    fn serve(&self, model: Option<Model<'static>>, version: u64) {
        let Some(model) = model else { return };
        let file_rows = self.has_pictures.then(|| FileRows::of(model.index().rows()));
        let loaded = Arc::new(LoadedModel::new(&self.name, model, version, file_rows));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// If mapped rows of the served model were lost (a shard was changed in place), takes the same rows from the file that was opened again.
    /// The labels and the rules of the served model are kept, because they may have been changed. Rows in shards cannot be changed.
    fn replace_lost_rows(&self, opened: Option<Model<'static>>) {
        let current = self.current();
        let Ok(served) = current.read() else { return };
        let (Err(problem), Some(opened)) = (served.index().rows().verify_unchanged(), opened) else { return };
        let index = opened.into_index();
        let restored = match &*served {
            Model::Classifier(model) => {
                NuqClassifier::from_parts(model.parts(), index).map(Model::Classifier)
            }
            Model::Regressor(model) => NuqRegressor::from_parts(model.parts(), index).map(Model::Regressor),
        };
        match restored {
            Ok(mut model) => {
                *model.rules_mut() = served.rules().clone();
                tracing::info!(model = self.name, %problem, "the rows of the model are read from the file again");
                self.serve(Some(model), served.version());
            }
            Err(error) => {
                tracing::error!(model = self.name, %error, "the rows of the model cannot be replaced")
            }
        }
    }
}

/// Opens a model and reads its rows, so that the first request finds them in memory and damage is noticed at once.
pub(crate) fn open_model(source: &ModelSource, device: Device) -> Result<ModelFile, Error> {
    let file = open_verified(&source.path, device)?;
    log_opened(source, &file.model);
    Ok(file)
}

fn log_opened(source: &ModelSource, model: &Model<'_>) {
    tracing::info!(
        model = source.name,
        file = %source.path.display(),
        rows = model.index().len(),
        columns = model.index().dim(),
        "model opened"
    );
}

/// The error of a request whose blocks were computed with different versions of the model.
pub(crate) fn model_changed() -> ApiError {
    let message = "the model was changed while the rows were computed: repeat the request, or send at most 1024 rows at a time";
    ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, "model_changed", message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use nuq::{Embeddings, Label, NuqClassifier};

    use super::*;
    use crate::state::Labels;
    use crate::{App, routes};

    fn model(labels: [&str; 4]) -> Model<'static> {
        let rows = Embeddings::new(vec![0.0, 1.0, 4.0, 5.0], 1).unwrap();
        NuqClassifier::params().n_neighbors(2).fit(&rows, &labels).unwrap().into()
    }

    /// A server with one model, in a folder that must be kept.
    fn app() -> (tempfile::TempDir, App) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.nuq");
        nuq_io::save(&model(["a", "a", "b", "b"]), &path).unwrap();
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        let app = App::new(Config { models, ephemeral: true, ..Config::default() }).unwrap();
        (folder, app)
    }

    fn relabel(model: &Model<'_>) -> Result<Change, ApiError> {
        Ok(Change::relabel(model, &[1], Labels::Classes(vec![Label::from("b")]))?)
    }

    /// If the computation began while a change is prepared, the change would wait for the end of the computation.
    #[test]
    fn label_issues_are_computed_after_pending_changes() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let deadline = Instant::now() + Duration::from_secs(600);
        std::thread::scope(|scope| {
            let mut reader = None;
            let applied = served.change(|model| {
                let cached = served.label_issues.clone().blocking_lock_owned();
                let running = reader.insert(scope.spawn(move || served.label_issues(cached, deadline)));
                std::thread::sleep(Duration::from_millis(200));
                assert!(!running.is_finished());
                relabel(model)
            });
            assert_eq!(applied.unwrap().version, 2);
            assert!(reader.unwrap().join().unwrap().unwrap().is_some());
        });
        let cached = served.label_issues.blocking_lock();
        assert_eq!(cached.as_ref().map(|issues| issues.version), Some(2));
    }

    #[test]
    fn label_issues_are_given_up_after_the_deadline_if_changes_interrupt_them() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let _pending = served.long_read.interrupt();
        let cached = served.label_issues.clone().blocking_lock_owned();
        assert!(served.label_issues(cached, Instant::now()).unwrap().is_none());
        // The next request need not wait.
        assert!(served.label_issues.try_lock().is_ok());
    }

    fn rows(count: usize) -> Rows {
        let values = (0..count).map(|i| i as f32 / 1000.0).collect::<Vec<f32>>();
        Rows::new(Embeddings::new(values, 1).unwrap(), None).unwrap()
    }

    /// The change is applied and not yet on the disk while the rows are computed.
    #[test]
    fn results_have_the_version_that_computed_them_and_wait_for_its_change() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let loaded = served.current();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let applied = served.state.change(|| loaded.clone(), relabel).unwrap();
        assert_eq!((applied.version, loaded.read().unwrap().version(), served.version()), (2, 2, 1));
        runtime.block_on(async {
            let score = served.score(&loaded, rows(1), Selection::default());
            tokio::pin!(score);
            let early = tokio::time::timeout(Duration::from_millis(100), &mut score).await;
            assert!(early.is_err(), "the results are returned before the change is on the disk");
            served.acknowledge(applied).unwrap();
            assert_eq!(score.await.unwrap().1, 2);
        });
    }

    #[test]
    fn requests_are_answered_after_a_panic_in_a_change() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let change = || {
            served.shown_after_panic(|| {
                served.state.change(|| served.current(), relabel).unwrap();
                panic!("a snapshot");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let read = served.read(|model| model.version());
        let version = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), read).await });
        assert_eq!(version.expect("the request does not wait").unwrap(), 2);
    }

    /// An insertion with other ids than the free ones panics after the model has the rows.
    #[test]
    fn a_model_with_a_part_of_a_failed_change_answers_no_request() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let loaded = served.current();
        let insert = |model: &Model<'_>| {
            let labels = Labels::Classes(vec![Label::from("b")]);
            let change = Change::insert(model, &Embeddings::new(vec![2.0], 1).unwrap(), labels, None)?;
            Ok(Change { ids: vec![900], ..change })
        };
        assert!(catch_unwind(AssertUnwindSafe(|| served.change(insert))).is_err());
        let error = app.models.get("m").err().unwrap();
        assert_eq!((error.status, error.code), (StatusCode::SERVICE_UNAVAILABLE, "model_damaged"));
        // A request that has begun before the change gets the same error.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let result = runtime.block_on(served.score(&loaded, rows(1), Selection::default()));
        assert_eq!(result.err().unwrap().code, "model_damaged");
    }

    /// The test holds the write lock of the model, as a change does, until the request waits for it.
    #[test]
    fn a_request_that_waited_for_a_change_that_has_panicked_is_refused() {
        let (_folder, app) = app();
        let app = Arc::new(app);
        let loaded = app.models.get("m").unwrap().current();
        let held = loaded.write();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let send = |path: &'static str| {
            let service = TowerToHyperService::new(routes(app.clone()));
            let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
            runtime.spawn(async move {
                let response = service.call(request).await.unwrap();
                (response.status(), response.into_body().collect().await.unwrap().to_bytes())
            })
        };
        let (file, list) = (send("/v1/models/m/file"), send("/v1/models"));
        std::thread::sleep(Duration::from_millis(200));
        loaded.set_failed_change(1);
        drop(held);
        assert_eq!(runtime.block_on(file).unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
        let (status, body) = runtime.block_on(list).unwrap();
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"[]"[..]));
    }

    #[test]
    fn an_error_of_a_reload_says_which_model_is_served() {
        let full = || StateError::Full { folder: "state".into(), problem: "no space".to_owned() };
        let of = |error: ReloadError| {
            let error = ApiError::from(error);
            (error.status.as_u16(), error.code, error.message)
        };
        let (status, code, message) = of(ReloadError::NotReplaced(full().into()));
        assert_eq!((status, code), (507, "disk_full"));
        assert!(message.contains("the former model is still served"), "{message}");
        let (status, code, message) = of(ReloadError::NotWritten(full()));
        assert_eq!((status, code), (507, "disk_full"));
        assert!(message.contains("the new model is served"), "{message}");
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        std::fs::write(&served.path, "no model").unwrap();
        let (status, code, message) = of(served.reload().unwrap_err());
        assert_eq!((status, code), (409, "cannot_reload"));
        assert!(
            message.contains("m.nuq") && message.contains("the former model is still served"),
            "{message}"
        );
    }

    /// The change is applied after the first check of the version in the path, and before the rows are computed.
    #[test]
    fn an_inference_with_a_version_in_its_path_is_not_answered_by_another_version() {
        let (_folder, app) = app();
        let app = Arc::new(app);
        let served = app.models.get("m").unwrap();
        let loaded = served.current();
        let body =
            r#"{"inputs": [{"name": "embeddings", "shape": [1, 1], "datatype": "FP32", "data": [0.5]}]}"#;
        let request = Request::post("/v2/models/m/versions/1/infer").header("host", "localhost");
        let service = TowerToHyperService::new(routes(app.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let applied = served.state.change(|| loaded.clone(), relabel).unwrap();
        let response = runtime.block_on(async {
            let response = service.call(request.body(Body::from(body)).unwrap());
            tokio::pin!(response);
            // The request waits until the change is on the disk.
            while served.written.receiver_count() == 0 {
                assert!(tokio::time::timeout(Duration::from_millis(10), &mut response).await.is_err());
            }
            served.acknowledge(applied).unwrap();
            response.await.unwrap()
        });
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }

    /// The results of the first block wait for the version 2, so the second block is computed after the second change.
    #[test]
    fn results_of_rows_in_memory_are_of_one_version() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let loaded = served.current();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let applied = served.state.change(|| loaded.clone(), relabel).unwrap();
        runtime.block_on(async {
            let score = served.score(&loaded, rows(1500), Selection::default());
            tokio::pin!(score);
            while served.written.receiver_count() == 0 {
                assert!(tokio::time::timeout(Duration::from_millis(10), &mut score).await.is_err());
            }
            served.change(relabel).unwrap();
            served.acknowledge(applied).unwrap();
            assert_eq!(score.await.err().unwrap().code, "model_changed");
        });
        runtime.block_on(async {
            assert_eq!(served.score(&loaded, rows(1500), Selection::default()).await.unwrap().1, 3);
        });
    }

    /// The second reload begins while the first one has opened the former file and not yet replaced the model.
    #[test]
    fn concurrent_reloads_serve_the_newest_file() {
        let (_folder, app) = app();
        let served = app.models.get("m").unwrap();
        let source = ModelSource { name: served.name.clone(), path: served.path.clone() };
        nuq_io::save(&model(["c", "c", "d", "d"]), &served.path).unwrap();
        std::thread::scope(|scope| {
            let mut second = None;
            let first = served.reload_from(|| {
                let file = open_model(&source, served.device);
                nuq_io::save(&model(["e", "e", "f", "f"]), &served.path).unwrap();
                second = Some(scope.spawn(move || served.reload()));
                // Without the lock, the second reload ends during this time.
                std::thread::sleep(Duration::from_millis(200));
                file
            });
            assert_eq!(first.unwrap().0, 2);
            assert_eq!(second.unwrap().join().unwrap().unwrap().0, 3);
        });
        let loaded = served.current();
        let model = loaded.read().unwrap();
        let Model::Classifier(classifier) = &*model else { panic!("the model is a classifier") };
        assert_eq!(classifier.classes().labels(), [Label::from("e"), Label::from("f")]);
    }
}
