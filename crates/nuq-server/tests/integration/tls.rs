//! TLS: requests over encrypted connections, and a certificate that is replaced while connections are open.

use std::sync::Arc;

use nuq_server::TlsFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::{Reply, Service};

/// A self-signed certificate and its private key.
struct Pair {
    /// The certificate as PEM text.
    certificate: String,
    /// The private key as PEM text.
    key: String,
    /// The certificate in binary form, for the trusted roots of a client.
    der: CertificateDer<'static>,
}

fn pair() -> Pair {
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Pair {
        certificate: generated.cert.pem(),
        key: generated.signing_key.serialize_pem(),
        der: generated.cert.der().clone(),
    }
}

/// Waits until the server has checked the files at least once: it does so every two seconds.
fn wait_for_check() {
    std::thread::sleep(std::time::Duration::from_secs(3));
}

/// A client that trusts one certificate, with its runtime.
struct Client {
    runtime: tokio::runtime::Runtime,
    stream: TlsStream<tokio::net::TcpStream>,
}

impl Client {
    /// Connects; `None` if the handshake fails.
    fn connect(service: &Service, trusted: &Pair) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(service.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
        })?;
        Some(Self { runtime, stream })
    }

    /// Sends a request and reads the whole response. The connection stays open.
    fn get(&mut self, path: &str) -> Reply {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let Self { runtime, stream } = self;
        runtime.block_on(async {
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut bytes = Vec::new();
            loop {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the connection has ended");
                if bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                    let reply = Reply::parse(&bytes);
                    let length: usize = reply.header("content-length").unwrap().parse().unwrap();
                    if reply.body.len() == length {
                        return reply;
                    }
                }
            }
        })
    }
}

#[test]
fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    let (first, other) = (pair(), pair());
    std::fs::write(&files.certificate, &first.certificate).unwrap();
    std::fs::write(&files.key, &first.key).unwrap();
    let service = Service::with(|config| config.tls = Some(files.clone()));
    assert_eq!(Client::connect(&service, &first).unwrap().get("/v2").json()["name"], "nuq");
    assert!(Client::connect(&service, &other).is_none(), "connected with another trusted certificate");
    // A request without TLS is not answered with data.
    assert!(
        !service
            .raw(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .windows(3)
            .any(|window| window == b"nuq")
    );
}

#[test]
fn a_changed_certificate_is_used_by_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    let (first, second) = (pair(), pair());
    let write = |pair: &Pair| {
        std::fs::write(&files.certificate, &pair.certificate).unwrap();
        std::fs::write(&files.key, &pair.key).unwrap();
    };
    write(&first);
    let service = Service::with(|config| config.tls = Some(files.clone()));
    let mut open = Client::connect(&service, &first).unwrap();
    assert_eq!(open.get("/v2").status, 200);
    // A certificate is not used while the other file still contains the key of the previous one.
    std::fs::write(&files.certificate, &second.certificate).unwrap();
    wait_for_check();
    assert!(Client::connect(&service, &first).is_some());
    write(&second);
    // Waits until the server has read the new files. Requests on the open connection are answered all the time.
    let mut new = loop {
        assert_eq!(open.get("/v2").status, 200);
        match Client::connect(&service, &second) {
            Some(client) => break client,
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    assert_eq!(new.get("/v2").status, 200);
    assert_eq!(open.get("/v2").status, 200, "an open connection is still answered");
    assert!(Client::connect(&service, &first).is_none(), "the former certificate is no longer used");
    // Files that cannot be used replace nothing.
    std::fs::write(&files.key, "no key").unwrap();
    wait_for_check();
    assert_eq!(Client::connect(&service, &second).unwrap().get("/v2").status, 200);
}

#[test]
fn errors_name_the_file_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("cert.pem"), pair().certificate).unwrap();
    // The key of another certificate.
    std::fs::write(path("other.pem"), pair().key).unwrap();
    std::fs::write(path("empty.pem"), "").unwrap();
    let error = |certificate: &str, key: &str| {
        // The model file does not exist: certificates are checked before models.
        let models = vec![nuq_server::ModelSource::parse("m=none.nuq").unwrap()];
        let tls = Some(TlsFiles { certificate: path(certificate), key: path(key) });
        nuq_server::check(&nuq_server::Config { models, tls, ..Default::default() }).unwrap_err().to_string()
    };
    assert!(error("cert.pem", "other.pem").contains("other.pem"), "{}", error("cert.pem", "other.pem"));
    assert!(error("empty.pem", "other.pem").contains("empty.pem: it holds no certificate"));
    assert!(error("cert.pem", "empty.pem").contains("empty.pem: it holds no private key"));
    assert!(error("cert.pem", "missing.pem").contains("missing.pem"));
}
