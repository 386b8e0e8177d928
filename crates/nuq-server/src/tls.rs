//! TLS, with certificates that are reloaded when their files change.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::config::TlsFiles;
use crate::error::Error;

/// Time between two checks whether the files have changed. The tests of TLS wait longer than this time.
const INTERVAL: Duration = Duration::from_secs(2);

/// The times of the last changes of certificate and key; `None` for a file that does not exist.
type Times = [Option<SystemTime>; 2];

/// The certificate of new connections.
pub(crate) struct Certificates {
    files: TlsFiles,
    /// The times of the last changes of the files, as they were when the server started.
    first: Times,
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, Error> {
        // The times are taken before the files are read, so that `watch` notices a change in between.
        let first = times(files);
        Ok(Self { files: files.clone(), first, current: RwLock::new(Arc::new(read(files)?)) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }

    /// Reads the files again. After an error the former certificate is still used.
    pub(crate) fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                tracing::info!(file = %self.files.certificate.display(), "certificate reloaded");
            }
            Err(error) => tracing::error!(%error, "the former certificate is still used"),
        }
    }

    /// Reloads the files whenever they have changed.
    pub(crate) async fn watch(&self) {
        let mut known = self.first;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let times = times(&self.files);
            if times != known && times.iter().all(Option::is_some) {
                self.reload();
                known = times;
            }
        }
    }
}

fn times(files: &TlsFiles) -> Times {
    [&files.certificate, &files.key]
        .map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

fn read(files: &TlsFiles) -> Result<ServerConfig, Error> {
    let problem = |path: &Path, problem: String| Error::Certificate { path: path.to_owned(), problem };
    let bytes = |path: &Path| fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source });
    let chain = CertificateDer::pem_slice_iter(&bytes(&files.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| problem(&files.certificate, format!("it is not a PEM file: {error}")))?;
    if chain.is_empty() {
        return Err(problem(&files.certificate, "it holds no certificate in PEM format".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?)
        .map_err(|_| problem(&files.key, "it holds no private key in PEM format".to_owned()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(&files.certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| {
            problem(&files.key, format!("the certificate and the key cannot be used: {error}"))
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
