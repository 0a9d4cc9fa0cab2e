//! Adds TLS to a connection.
//!
//! ureq's own connector makes a new configuration for each connection of a request that has settings. All our
//! requests have settings, so that connector would never resume a session. ureq also takes either the compiled-in
//! roots or the operator's roots. Trying one set after the other would hide the first certificate error.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::unversioned::transport::time::Instant;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

use super::crypto;
use crate::cloudflare::resolver::CachingResolver;
use crate::limits::SLOW_CONNECTION_MIN;

/// TLS sessions kept for resumption: those of the API and of an `https` proxy. rustls counts eight tickets for each.
const TLS_SESSIONS_KEPT: usize = 16;

/// Adds TLS to the connections of `https` addresses.
#[derive(Debug)]
pub(super) struct TlsConnector {
    config: Arc<ClientConfig>,
    resolver: CachingResolver,
}

impl TlsConnector {
    pub(super) fn new(roots: RootCertStore, resolver: CachingResolver) -> Self {
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .expect("the provider has suites of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_KEPT);
        Self { config: Arc::new(config), resolver }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        let spent = spent(details);
        if spent > SLOW_CONNECTION_MIN
            && let Some(front) = details.addrs.first()
        {
            self.resolver.demote(Some(front.ip()));
        }
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ureq::Error::Tls("the host cannot be in a certificate"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        let after = (*details.timeout.after).saturating_sub(spent).into();
        socket.set_timeout(NextTimeout { after, ..details.timeout });
        connection.complete_io(&mut socket)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { stream: StreamOwned::new(connection, socket), buffers })))
    }
}

/// The time since connecting began.
fn spent(details: &ConnectionDetails<'_>) -> Duration {
    match (details.now, (details.current_time)()) {
        (Instant::Exact(begun), Instant::Exact(now)) => now.saturating_duration_since(begun),
        _ => Duration::ZERO,
    }
}

/// A connection whose handshake is done.
pub(super) struct TlsTransport {
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
