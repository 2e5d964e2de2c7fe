//! TLS for listeners: a certificate, its key, and optionally whose certificates clients have to show.

use std::path::PathBuf;

/// Where the files are, all in PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate, and those up to the root's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots of clients' certificates; if it is given, a client has to show one.
    pub clients: Option<PathBuf>,
}

#[cfg(feature = "tls")]
pub use with::Tls;

#[cfg(not(feature = "tls"))]
pub use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::path::Path;
    use std::sync::{Arc, PoisonError, RwLock};
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};
    use tokio_rustls::server::TlsStream;

    use super::Files;

    /// The TLS of a listener. New connections use what was loaded last.
    pub struct Tls {
        files: Files,
        acceptor: RwLock<TlsAcceptor>,
    }

    impl Tls {
        /// Loads the files.
        pub fn load(files: Files) -> Result<Tls, String> {
            Ok(Tls {
                acceptor: RwLock::new(acceptor(&files)?),
                files,
            })
        }

        /// Loads the files again. If they are not as expected, those before stay in use.
        pub fn reload(&self) -> Result<(), String> {
            let fresh = acceptor(&self.files)?;
            *self
                .acceptor
                .write()
                .unwrap_or_else(PoisonError::into_inner) = fresh;
            Ok(())
        }

        /// The files.
        pub fn files(&self) -> &Files {
            &self.files
        }

        pub(crate) async fn accept(
            &self,
            stream: TcpStream,
            within: Duration,
        ) -> std::io::Result<TlsStream<TcpStream>> {
            let acceptor = (self.acceptor.read().unwrap_or_else(PoisonError::into_inner)).clone();
            tokio::time::timeout(within, acceptor.accept(stream)).await?
        }
    }

    fn acceptor(files: &Files) -> Result<TlsAcceptor, String> {
        let at = |path: &Path, why: String| format!("{}: {why}", path.display());
        let own = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key);
        let key = key.map_err(|error| at(&files.key, error.to_string()))?;
        let config = ServerConfig::builder();
        let config = match &files.clients {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots
                        .add(root)
                        .map_err(|error| at(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
                config.with_client_cert_verifier(
                    verifier.map_err(|error| at(path, error.to_string()))?,
                )
            }
        };
        let config = config.with_single_cert(own, key);
        let mut config = config.map_err(|error| at(&files.certificate, error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let at = |why: &str| format!("{}: {why}", path.display());
        let read = CertificateDer::pem_file_iter(path).map_err(|error| at(&error.to_string()))?;
        let read: Result<Vec<_>, _> = read.collect();
        let read = read.map_err(|error| at(&error.to_string()))?;
        match read.is_empty() {
            true => Err(at("there is no certificate in it")),
            false => Ok(read),
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::convert::Infallible;
    use std::time::Duration;

    use tokio::net::TcpStream;

    use super::Files;

    /// TLS that this program cannot do.
    pub struct Tls(Infallible);

    impl Tls {
        /// Says that it cannot.
        pub fn load(_: Files) -> Result<Tls, String> {
            Err("this program was built without TLS: build it with `--features tls`".to_owned())
        }

        /// Loads the files again.
        pub fn reload(&self) -> Result<(), String> {
            match self.0 {}
        }

        /// The files.
        pub fn files(&self) -> &Files {
            match self.0 {}
        }

        pub(crate) async fn accept(&self, _: TcpStream, _: Duration) -> std::io::Result<TcpStream> {
            match self.0 {}
        }
    }
}
