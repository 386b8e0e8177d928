//! TLS: a request over an encrypted connection, and a certificate that is replaced.

use std::sync::Arc;

use nuq_server::TlsFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::{Reply, Service};

struct Pair {
    certificate: String,
    key: String,
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

/// The response to a request by a client that trusts one certificate; `None` if the handshake fails.
fn get(service: &Service, trusted: &Pair) -> Option<Reply> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(service.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        stream.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        Some(Reply::parse(&reply))
    })
}

#[test]
fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    let (first, other) = (pair(), pair());
    std::fs::write(&files.certificate, &first.certificate).unwrap();
    std::fs::write(&files.key, &first.key).unwrap();
    let service = Service::with(|config| config.tls = Some(files.clone()));
    assert_eq!(get(&service, &first).unwrap().json()["name"], "nuq");
    assert!(get(&service, &other).is_none(), "another certificate is not accepted");
    // A plain request is not answered with data.
    assert!(
        !service
            .raw(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .windows(3)
            .any(|window| window == b"nuq")
    );
}

#[test]
fn unusable_certificates_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("cert.pem"), pair().certificate).unwrap();
    std::fs::write(path("other.pem"), pair().key).unwrap();
    std::fs::write(path("empty.pem"), "").unwrap();
    let error = |certificate: &str, key: &str| {
        let models = vec![nuq_server::ModelSource::parse("m=none.nuq").unwrap()];
        let tls = Some(TlsFiles { certificate: path(certificate), key: path(key) });
        nuq_server::check(&nuq_server::Config { models, tls, ..Default::default() }).unwrap_err().to_string()
    };
    assert!(error("cert.pem", "other.pem").contains("other.pem"), "{}", error("cert.pem", "other.pem"));
    assert!(error("empty.pem", "other.pem").contains("empty.pem: it holds no certificate"));
    assert!(error("cert.pem", "empty.pem").contains("empty.pem: it holds no private key"));
    assert!(error("cert.pem", "missing.pem").contains("missing.pem"));
}
