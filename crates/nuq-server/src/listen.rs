//! The address to listen on: an IP address or a host name, and a port. A name can stand for several addresses, as `localhost` does for
//! `127.0.0.1` and `[::1]`.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};

/// An address as it was given, and the socket addresses that it stands for.
///
/// ```
/// use nuq_server::ListenAddress;
/// let address: ListenAddress = "127.0.0.1:8080".parse().unwrap();
/// assert!(address.is_loopback());
/// assert!("localhost".parse::<ListenAddress>().is_err()); // no port
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    text: String,
    /// At least one address.
    resolved: Vec<SocketAddr>,
}

impl ListenAddress {
    /// Whether only this machine can reach the server, because all resolved addresses are loopback addresses.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.resolved.iter().all(|address| address.ip().is_loopback())
    }

    /// The host, without the port.
    pub(crate) fn host(&self) -> &str {
        self.text.rsplit_once(':').map_or(self.text.as_str(), |(host, _)| host)
    }

    /// The first address that other machines can reach.
    pub(crate) fn public(&self) -> Option<SocketAddr> {
        self.resolved.iter().copied().find(|address| !address.ip().is_loopback())
    }

    /// Listens on all resolved addresses. Addresses that this machine does not have, such as `[::1]` without IPv6, are skipped; it is an
    /// error if no other address is left.
    pub(crate) async fn bind(&self) -> io::Result<Listeners> {
        let (mut listeners, mut failure): (Vec<TcpListener>, _) = (vec![], None);
        for address in &self.resolved {
            let mut address = *address;
            // Port 0: all addresses use the free port that was selected for the first one.
            if let Some(first) = listeners.first().filter(|_| address.port() == 0) {
                address.set_port(first.local_addr()?.port());
            }
            match TcpListener::bind(address).await {
                Ok(listener) => listeners.push(listener),
                Err(error) if is_absent(&error) => failure = failure.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(error) if listeners.is_empty() => Err(error),
            _ => Ok(Listeners { listeners, next: 0 }),
        }
    }
}

/// Whether an address cannot be used because the machine does not have it.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        // EAFNOSUPPORT on Linux, for which `io::ErrorKind` has no variant.
        || error.raw_os_error() == Some(97)
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self { text: address.to_string(), resolved: vec![address] }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let expected = "give a host and a port, such as 127.0.0.1:8080, [::1]:8080 or localhost:8080";
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(format!("the port is missing: {expected}"));
        };
        let Ok(port) = port.parse::<u16>() else {
            return Err(format!("{port:?} is not a port from 0 to 65535: {expected}"));
        };
        if host.is_empty() || host.contains(':') {
            return Err(format!("{host:?} is not a host: {expected}"));
        }
        let unknown = |problem: String| format!("the host {host:?} is unknown ({problem}): {expected}");
        let mut resolved: Vec<SocketAddr> =
            (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
        resolved.sort();
        resolved.dedup();
        match resolved.is_empty() {
            true => Err(unknown("it has no address".to_owned())),
            false => Ok(Self { text: text.to_owned(), resolved }),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The sockets that accept connections.
pub(crate) struct Listeners {
    /// At least one socket.
    listeners: Vec<TcpListener>,
    /// The index of the socket that is polled first, modulo the number of sockets. It advances, so that every socket is served.
    next: usize,
}

impl Listeners {
    /// The addresses, with the port that was selected.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Waits for the next connection.
    pub(crate) async fn accept(&mut self) -> io::Result<TcpStream> {
        let Self { listeners, next } = self;
        poll_fn(|context| {
            for i in 0..listeners.len() {
                let at = (*next + i) % listeners.len();
                if let Poll::Ready(accepted) = listeners[at].poll_accept(context) {
                    *next = at + 1;
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_loopback_if_all_its_resolved_addresses_are() {
        let localhost: ListenAddress = "localhost:8080".parse().unwrap();
        assert!(localhost.is_loopback() && localhost.public().is_none());
        assert_eq!((localhost.host(), localhost.to_string().as_str()), ("localhost", "localhost:8080"));
        let loopback: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let public: SocketAddr = "10.0.0.7:80".parse().unwrap();
        let both = ListenAddress { text: "host:80".to_owned(), resolved: vec![loopback, public] };
        assert!(!both.is_loopback());
        assert_eq!(both.public(), Some(public));
    }

    #[test]
    fn invalid_addresses_are_refused_with_an_example() {
        for text in [
            "",
            "8080",
            "localhost",
            "localhost:",
            "localhost:65536",
            ":8080",
            "::1:8080",
            "no.such.host.invalid:1",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("localhost:8080"), "{text}: {error}");
        }
    }

    /// This test needs Linux: other systems have only one IPv4 loopback address.
    #[cfg(target_os = "linux")]
    #[test]
    fn connections_to_all_addresses_are_accepted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
            // The second address gets the port of the first one. This machine does not have the third address.
            let resolved = vec![any, "127.0.0.2:0".parse().unwrap(), "192.0.2.1:0".parse().unwrap()];
            let mut listeners = ListenAddress { text: "host:0".to_owned(), resolved }.bind().await.unwrap();
            let addresses = listeners.addresses().unwrap();
            assert_eq!(addresses.len(), 2);
            assert_eq!(addresses[0].port(), addresses[1].port());
            for address in addresses {
                let client = std::net::TcpStream::connect(address).unwrap();
                let server = listeners.accept().await.unwrap();
                assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
            }
            let absent =
                ListenAddress { text: "x:0".to_owned(), resolved: vec!["192.0.2.1:0".parse().unwrap()] };
            assert!(absent.bind().await.is_err());
        });
    }
}
