//! What Cloudflare holds: accounts, zones with their records, tunnels with their configurations, Access, tokens.
//!
//! Everything a test sets up, looks at or edits "by hand" goes through [`Cloudflare`]; so does every call of the
//! API, after the token was checked.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::{Access, Visitor};
use crate::answer::Refusal;
use crate::batch;
use crate::clock::Clock;
use crate::edge::Edge;
use crate::past::{Past, Thing};
use crate::record::Record;
use crate::token::Token;
use crate::tunnel::{NewTunnel, Secret, Tunnel};
use crate::visit::{self, Visit};
use crate::whim::Whims;
use crate::zone::{Plan, Zone};

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Display name.
    pub name: String,
}

/// What Cloudflare holds. Zones are named by id or name, tunnels by id or name.
///
/// # Panics
/// A method that is handed the name of something that does not exist panics: in a test that is a mistake of the
/// test.
#[derive(Debug)]
pub struct Cloudflare {
    pub(crate) clock: Clock,
    pub(crate) edge: Edge,
    pub(crate) identifiers: Identifiers,
    secrets: Identifiers,
    pub(crate) accounts: Vec<Account>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) tunnels: Vec<Tunnel>,
    pub(crate) access: Access,
    /// What the edge has of it while something newer is under way.
    pub(crate) access_at_edge: Option<Access>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) whims: Whims,
    /// `None` where it is not kept.
    pub(crate) past: Option<Past>,
}

impl Cloudflare {
    /// An empty Cloudflare with one account.
    pub(crate) fn new() -> Self {
        let mut cloudflare = Self {
            clock: Clock::start(),
            edge: Edge::default(),
            identifiers: Identifiers::default(),
            secrets: Identifiers::far_off(),
            accounts: Vec::new(),
            zones: Vec::new(),
            tunnels: Vec::new(),
            access: Access::default(),
            access_at_edge: None,
            tokens: Vec::new(),
            whims: Whims::default(),
            past: None,
        };
        cloudflare.add_account("Example Shop");
        cloudflare
    }

    /// The accounts; the first one is there from the start.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Adds an account and says its id.
    pub fn add_account(&mut self, name: &str) -> String {
        let account = Account { id: self.identifiers.hex(), name: name.to_owned() };
        let id = account.id.clone();
        self.accounts.push(account);
        self.add_organization(&id);
        id
    }

    /// Adds an active zone to the first account and says its id.
    pub fn add_zone(&mut self, name: &str, plan: Plan) -> String {
        let account = self.first_account();
        self.add_zone_to(&account, name, plan)
    }

    /// Adds an active zone to an account and says its id.
    pub fn add_zone_to(&mut self, account: &str, name: &str, plan: Plan) -> String {
        let account = self.accounts.iter().find(|a| a.id == account).cloned().expect("the account exists");
        let zone = Zone::new(self.identifiers.hex(), name, account, plan, self.clock.timestamp());
        let id = zone.id.clone();
        self.zones.push(zone);
        id
    }

    /// The zones in the order they were made.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// A zone, by id or name.
    pub fn zone(&self, zone: &str) -> &Zone {
        self.find_zone(zone).expect("the zone exists")
    }

    /// A zone to change its plan, status or quota, by id or name.
    pub fn zone_mut(&mut self, zone: &str) -> &mut Zone {
        self.zones.iter_mut().find(|z| z.id == zone || z.name == zone).expect("the zone exists")
    }

    pub(crate) fn find_zone(&self, zone: &str) -> Option<&Zone> {
        self.zones.iter().find(|z| z.id == zone || z.name == zone)
    }

    /// The records of a zone, oldest first.
    pub fn records(&self, zone: &str) -> &[Record] {
        &self.zone(zone).records
    }

    /// Adds a record as another client would, under all of Cloudflare's rules, and says its id. The JSON is that of
    /// `POST /zones/{id}/dns_records`, where `ttl` may be left out; `meta` is taken over (`{"read_only": true}` makes a
    /// record of Cloudflare's own).
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_record(&mut self, zone: &str, record: Value) -> Result<String, Refusal> {
        let mut record = record;
        let meta = record.as_object_mut().and_then(|members| members.remove("meta"));
        let id = self.change_records(zone, |editor| editor.post(&record)).map(|record| record.id)?;
        if let Some(Value::Object(meta)) = meta
            && let Some(stored) = self.zone_mut(zone).records.iter_mut().find(|r| r.id == id)
        {
            stored.meta.extend(meta);
        }
        Ok(id)
    }

    /// Adds many records in one transaction and says their ids: much faster than one by one, and without the limit of
    /// a batch.
    ///
    /// # Errors
    /// What Cloudflare would refuse; then none is added.
    pub fn add_records(&mut self, zone: &str, records: &[Value]) -> Result<Vec<String>, Refusal> {
        self.change_records(zone, |editor| {
            records.iter().map(|record| editor.post(record).map(|record| record.id)).collect()
        })
    }

    /// Changes the named fields of a record as another client would.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn patch_record(&mut self, zone: &str, id: &str, fields: &Value) -> Result<(), Refusal> {
        self.change_records(zone, |editor| editor.patch(id, fields)).map(|_| ())
    }

    /// Deletes a record as another client would.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn delete_record(&mut self, zone: &str, id: &str) -> Result<(), Refusal> {
        self.change_records(zone, |editor| editor.delete(id)).map(|_| ())
    }

    /// Runs changes of a zone's records as one transaction: all of them, or none when one is refused.
    pub(crate) fn change_records<T>(
        &mut self,
        zone: &str,
        change: impl FnOnce(&mut batch::Editor<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let now = self.clock.timestamp_of_transaction();
        self.hold_resolvers(zone);
        let thing = Thing::Records(self.zone(zone).id.clone());
        let before = self.before_write(&thing);
        let found = self.zones.iter_mut().find(|z| z.id == zone || z.name == zone).expect("the zone exists");
        let result = batch::transact(found, &mut self.identifiers, &self.whims, &now, change)?;
        self.after_write(thing, before);
        self.send_records(zone);
        Ok(result)
    }

    /// Adds a live, remotely-managed tunnel without configuration to the first account and says its id.
    pub fn add_tunnel(&mut self, name: &str) -> String {
        self.add_tunnel_with(NewTunnel::named(name))
    }

    /// Adds a tunnel and says its id.
    pub fn add_tunnel_with(&mut self, tunnel: NewTunnel) -> String {
        let account = tunnel.account.clone().unwrap_or_else(|| self.first_account());
        let secret = Secret::new(self.secrets.bytes());
        let tunnel = Tunnel::new(self.identifiers.uuid(), account, tunnel, secret, self.clock.timestamp());
        let id = tunnel.id.clone();
        self.tunnels.push(tunnel);
        id
    }

    /// The tunnels in the order they were made, deleted ones included.
    pub fn tunnels(&self) -> &[Tunnel] {
        &self.tunnels
    }

    /// Whether there is such a tunnel, by id or name.
    pub(crate) fn has_tunnel(&self, tunnel: &str) -> bool {
        self.place_of_tunnel(tunnel).is_some()
    }

    /// A tunnel, by id or name.
    pub fn tunnel(&self, tunnel: &str) -> &Tunnel {
        self.place_of_tunnel(tunnel).and_then(|place| self.tunnels.get(place)).expect("the tunnel exists")
    }

    /// A tunnel to change, by id or name.
    pub fn tunnel_mut(&mut self, tunnel: &str) -> &mut Tunnel {
        let place = self.place_of_tunnel(tunnel);
        place.and_then(|place| self.tunnels.get_mut(place)).expect("the tunnel exists")
    }

    /// A deleted tunnel has freed its name, so the name means the live tunnel where there is one.
    fn place_of_tunnel(&self, tunnel: &str) -> Option<usize> {
        let find = |test: &dyn Fn(&Tunnel) -> bool| self.tunnels.iter().position(test);
        find(&|held| held.id == tunnel)
            .or_else(|| find(&|held| held.name == tunnel && !held.deleted))
            .or_else(|| find(&|held| held.name == tunnel))
    }

    /// Replaces a tunnel's configuration as another client's PUT would: checked by cloudflared's rules, the version
    /// goes up by one. `config` is the text of the document itself, not of the PUT's body.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn put_configuration(&mut self, tunnel: &str, config: &str) -> Result<i64, Refusal> {
        let config = crate::json::raw(config).map_err(|error| Refusal::bad_request(error.to_string()))?;
        self.change_configuration(tunnel, &config)
    }

    /// Stores a tunnel's configuration and sends it to the connectors.
    pub(crate) fn change_configuration(&mut self, tunnel: &str, config: &RawValue) -> Result<i64, Refusal> {
        let thing = Thing::Configuration(self.tunnel(tunnel).id.clone());
        let before = self.before_write(&thing);
        let place = self.place_of_tunnel(tunnel);
        let found = place.and_then(|place| self.tunnels.get_mut(place)).expect("the tunnel exists");
        let version = found.put(config, &self.whims, self.clock.timestamp())?;
        self.after_write(thing, before);
        self.send_configuration(tunnel);
        Ok(version)
    }

    /// A tunnel's configuration document as it is stored; `None` where there is none or it is `null`.
    pub fn configuration(&self, tunnel: &str) -> Option<&RawValue> {
        self.tunnel(tunnel).config.as_deref()
    }

    /// Adds a token.
    pub fn add_token(&mut self, token: Token) {
        self.tokens.push(token);
    }

    /// A token to disable, expire or narrow, by its value.
    pub fn token_mut(&mut self, value: &str) -> &mut Token {
        self.tokens.iter_mut().find(|token| token.value == value).expect("the token exists")
    }

    /// What a visitor of `https://host/path` gets that has no login and meets the tunnel's first connector.
    pub fn visit(&self, host: &str, path: &str) -> Visit {
        self.visit_as(Visitor::WithoutLogin, host, path)
    }

    /// The same, of another visitor.
    pub fn visit_as(&self, visitor: Visitor, host: &str, path: &str) -> Visit {
        visit::visit(self, visitor, host, path)
    }

    /// What this Cloudflare does beyond its rules.
    pub fn whims_mut(&mut self) -> &mut Whims {
        &mut self.whims
    }

    pub(crate) fn first_account(&self) -> String {
        self.accounts.first().map(|account| account.id.clone()).unwrap_or_default()
    }
}

/// Makes identifiers that are the same in every run and do not sort by age.
#[derive(Debug, Default)]
pub(crate) struct Identifiers {
    made: u64,
}

impl Identifiers {
    /// Half of all numbers away from the others.
    fn far_off() -> Self {
        Self { made: 1 << 63 }
    }

    /// 32 bytes.
    fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&self.next().to_be_bytes());
        }
        bytes
    }

    /// 32 hexadecimal digits.
    pub(crate) fn hex(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    /// SplitMix64: every number once before any repeats.
    fn next(&mut self) -> u64 {
        self.made = self.made.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.made ^ self.made >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
