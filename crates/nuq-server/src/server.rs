//! The running server: connections, signals and shutdown.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};

use crate::demo::Demo;
use crate::listen::Listeners;
use crate::tls::Certificates;
use crate::{App, Config, Error};

/// A running server. Dropping it ends all connections.
///
/// ```no_run
/// use nuq_server::{Config, ModelSource, Server};
/// let models = vec![ModelSource::parse("model.nuq").unwrap()];
/// let server = Server::start(Config { models, ..Config::default() })?;
/// println!("http://{}", server.address());
/// server.wait();
/// # Ok::<(), nuq_server::Error>(())
/// ```
pub struct Server {
    address: SocketAddr,
    runtime: Runtime,
    app: Arc<App>,
    certificates: Option<Arc<Certificates>>,
    stop: watch::Sender<bool>,
    connections: tokio::task::JoinHandle<()>,
    /// The signals, if they are handled from the start on.
    signals: Option<Signals>,
}

impl Server {
    /// Opens the models and begins to answer requests on other threads.
    ///
    /// # Errors
    /// Options that are invalid or contradict each other, files or a state folder that cannot be used, an address that cannot be used, or
    /// threads that cannot be started.
    pub fn start(config: Config) -> Result<Self, Error> {
        Self::launch(config, false)
    }

    /// Opens the models, and serves until SIGTERM or Ctrl-C; see [`wait`](Self::wait). The signals are handled from the first connection on.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn run(config: Config) -> Result<(), Error> {
        Self::launch(config, true)?.wait();
        Ok(())
    }

    fn launch(mut config: Config, handles_signals: bool) -> Result<Self, Error> {
        config.validate()?;
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source: io::Error| Error::System { what, source }
        };
        let certificates = config.tls.as_ref().map(Certificates::open).transpose()?.map(Arc::new);
        let wanted = config.address.clone();
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
        check_resources(workers).map_err(Error::Threads)?;
        let build =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        // The runtime panics if a thread cannot be started, which may happen even after the check.
        let runtime =
            nuq_io::catch_panic(build).unwrap_or_else(|| Err(io::Error::other("the runtime cannot start")));
        let runtime = runtime.map_err(Error::Threads)?;
        // The models are read after the server has bound its address, because reading can take long and an address in use is then
        // reported at once.
        let listeners = runtime
            .block_on(wanted.bind())
            .map_err(failed(&format!("cannot listen on {wanted}, choose another one with --address")))?;
        let addresses = listeners.addresses().map_err(failed("cannot listen"))?;
        let demo = if config.demo { Some(Demo::prepare()?) } else { None };
        if let Some(demo) = &demo {
            config.models.push(demo.source());
            if config.pictures.is_empty() {
                config.pictures.push(demo.pictures());
            }
        }
        // The demonstration accepts changes of its model also without a state folder.
        config.ephemeral |= config.demo && config.state.is_none();
        let app = Arc::new(App::new(config)?);
        let (stop, stopped) = watch::channel(false);
        let routes = crate::routes(app.clone());
        let accept = accept(listeners, app.clone(), routes, certificates.clone(), stopped);
        // Before the models are open, a signal ends the process. A client that was answered may end the server at once, so the signals
        // are handled before the first connection is accepted.
        let signals = handles_signals.then(|| runtime.block_on(async { Signals::handle() })).flatten();
        let connections = runtime.spawn(accept);
        if let Some(certificates) = certificates.clone() {
            runtime.spawn(async move { certificates.watch().await });
        }
        if let Some(demo) = demo {
            runtime.spawn(demo.replay(app.clone()));
        }
        let scheme = if certificates.is_some() { "https" } else { "http" };
        for address in &addresses {
            tracing::info!(address = format!("{scheme}://{address}"), "listening");
        }
        Ok(Self { address: addresses[0], runtime, app, certificates, stop, connections, signals })
    }

    /// The address with the selected port; the first address if the host name has several.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until SIGTERM or Ctrl-C, then completes running requests and returns. SIGHUP reloads models and certificates.
    pub fn wait(mut self) {
        let (app, certificates) = (self.app.clone(), self.certificates.clone());
        let signals = self.signals.take();
        self.runtime.block_on(async {
            match signals.or_else(Signals::handle) {
                Some(signals) => signals.wait(&app, certificates.as_deref()).await,
                None => std::future::pending().await,
            }
        });
        self.stop();
    }

    /// Completes running requests, at most for the configured time, and ends.
    pub fn stop(self) {
        let limit = self.app.config.drain_timeout;
        tracing::info!(seconds = limit.as_secs_f64(), "ending: running requests are completed");
        self.app.stopping.store(true, Relaxed);
        let _ = self.stop.send(true);
        let drained = self.runtime.block_on(async { timeout(limit, self.connections).await });
        if drained.is_err() {
            tracing::warn!("requests were still running and are dropped");
        }
        self.app.models.iter().for_each(|served| served.state.flush());
        // Blocking tasks of dropped requests may still run. They are awaited only for this time.
        self.runtime.shutdown_timeout(Duration::from_millis(500));
        tracing::info!("ended");
    }
}

/// Fails if the system cannot start the threads of the runtime, or has no file descriptors for the runtime. Without this check, the runtime
/// would panic in these cases.
fn check_resources(threads: usize) -> io::Result<()> {
    #[cfg(unix)]
    let _descriptors: Vec<_> =
        (0..4).map(|_| std::os::unix::net::UnixStream::pair()).collect::<io::Result<_>>()?;
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // All threads wait for this lock, so they exist at the same time.
        let closed = gate.lock();
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
        let started: io::Result<Vec<_>> = (0..threads).map(start).collect();
        drop(closed);
        started.map(drop)
    })
}

/// The signals that a server handles. From the creation of this value on, they do not end the process.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// `None`, with a line in the log, if the system does not allow it. It must be called in a runtime.
    fn handle() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let streams = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        let [Ok(terminate), Ok(interrupt), Ok(hangup)] = streams else {
            tracing::error!("signals cannot be handled");
            return None;
        };
        Some(Self { terminate, interrupt, hangup })
    }

    /// Waits for a signal that ends the server. A second such signal ends the process at once.
    async fn wait(mut self, app: &Arc<App>, certificates: Option<&Certificates>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hangup.recv() => {
                    if let Some(certificates) = certificates {
                        certificates.reload();
                    }
                    let app = app.clone();
                    tokio::task::spawn_blocking(move || app.reload_all());
                }
            }
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            tracing::warn!("a second signal: ending at once");
            std::process::exit(130);
        });
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn handle() -> Option<Self> {
        Some(Self)
    }

    async fn wait(self, _: &Arc<App>, _: Option<&Certificates>) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Accepts connections until the server is stopped, and then waits for the open connections.
async fn accept(
    mut listeners: Listeners,
    app: Arc<App>,
    routes: Router,
    certificates: Option<Arc<Certificates>>,
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(app.config.limits.connections.min(Semaphore::MAX_PERMITS)));
    loop {
        // If no permit is free, further connections wait in the queue of the operating system.
        let next = async {
            let permit = free.clone().acquire_owned().await.expect("the semaphore is never closed");
            (listeners.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            next = next => next,
            _ = stopped.changed() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // For example too many open files: the next connection may succeed later.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let acceptor = certificates.as_ref().map(|certificates| certificates.acceptor());
        let connection = Connection {
            app: app.clone(),
            routes: routes.clone(),
            watcher: graceful.watcher(),
            _permit: permit,
        };
        tokio::spawn(connection.serve(stream, acceptor));
    }
    drop(listeners);
    graceful.shutdown().await;
}

struct Connection {
    app: Arc<App>,
    routes: Router,
    watcher: Watcher,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream, acceptor: Option<tokio_rustls::TlsAcceptor>) {
        // Without this option, the operating system delays small responses to combine them with further data.
        let _ = stream.set_nodelay(true);
        self.app.metrics.connections.fetch_add(1, Relaxed);
        let _open = OpenConnection(self.app.clone());
        match acceptor {
            None => self.exchange(stream).await,
            Some(acceptor) => {
                let limit = self.app.config.limits.client_timeout;
                // Failed handshakes are not logged, because port scanners cause many of them.
                if let Ok(Ok(stream)) = timeout(limit, acceptor.accept(stream)).await {
                    self.exchange(stream).await;
                }
            }
        }
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let limit = self.app.config.limits.client_timeout;
        let stream = TokioIo::new(Box::pin(TimedWrites { stream, limit, timer: None }));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limit)
            .serve_connection(stream, TowerToHyperService::new(self.routes));
        // An error means that the client is gone, is too slow, or does not speak HTTP.
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

struct OpenConnection(Arc<App>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Relaxed);
    }
}

/// A stream whose writes fail if the other side accepts no bytes for the time `limit`.
struct TimedWrites<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> TimedWrites<S> {
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let result = write(Pin::new(&mut self.stream), context);
        if result.is_ready() {
            self.timer = None;
            return result;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.timed(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.timed(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timed(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timed(context, |stream, context| stream.poll_shutdown(context))
    }
}
