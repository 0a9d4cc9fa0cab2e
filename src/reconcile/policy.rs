//! What the configuration alone decides, before anything is looked up at Cloudflare.

use std::net::SocketAddr;

use crate::ingress::OriginRequest;
use crate::limits;
use crate::model::DomainFilter;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::service_template::ServiceTemplate;

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `OWNER_ID`. It is written into every stamp; what carries another owner is not ours.
    pub owner: Box<str>,
    /// `DOMAIN_FILTER` and its kin: the names that are served.
    pub filter: DomainFilter,
    /// `DEFAULT_SERVICE`: where every address and CNAME that names no service is published to.
    pub default_service: Option<ServiceTemplate>,
    /// `ORIGIN_*`: options of every rule whose endpoint does not set them.
    pub origin_defaults: OriginRequest,
    /// `ORIGIN_CA_POOLS`: files that an endpoint may name as `caPool`, besides the one of `origin_defaults`.
    pub ca_pools: Vec<Box<str>>,
    /// Where this program listens. No endpoint may publish that.
    pub own_addresses: Vec<SocketAddr>,
    /// `MASS_DELETION_LIMIT`: so many hostnames may go in one request whatever their share; 0 lets any number go.
    pub mass_deletion_limit: usize,
    /// `OWNERSHIP`.
    pub ownership: Ownership,
    /// `ADOPT`: what of somebody else's is taken over.
    pub adopt: Adopt,
    /// `NAMESPACE_GUARD` and `CLUSTER_DOMAIN`: keeps namespaces apart.
    pub namespace_guard: Option<NamespaceGuard>,
}

impl Policy {
    /// Everything but the owner as it is by default.
    pub fn new(owner: &str) -> Self {
        Self {
            owner: owner.into(),
            filter: DomainFilter::default(),
            default_service: None,
            origin_defaults: OriginRequest::default(),
            ca_pools: Vec::new(),
            own_addresses: Vec::new(),
            mass_deletion_limit: limits::MASS_DELETION_LIMIT_DEFAULT,
            ownership: Ownership::default(),
            adopt: Adopt::default(),
            namespace_guard: None,
        }
    }
}

/// What becomes of the TXT records in which ExternalDNS keeps what it owns. The stamps say what is ours either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// They are not stored: the stamp says what they would.
    #[default]
    Comment,
    /// They are stored and shown as ExternalDNS wrote them.
    Txt,
}

impl Ownership {
    /// The form in which it is configured.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Txt => "txt",
        }
    }
}
