//! Reads the zones.

use serde::{Deserialize, Deserializer};

use super::client::{Client, path};
use super::error::Error;
use super::error_class::ApiResource;
use crate::clock::Deadline;
use crate::limits::ZONES_PER_PAGE;
use crate::model::hostname;
use crate::model::json::null_is_default;
use crate::model::{AccountId, Zone, ZoneId, ZonePlan};

#[derive(Deserialize)]
struct WireZone {
    id: ZoneId,
    name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    account: WireAccount,
    #[serde(default, deserialize_with = "null_is_default")]
    plan: WirePlan,
    #[serde(default, deserialize_with = "null_is_default")]
    status: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    paused: bool,
}

#[derive(Default, Deserialize)]
struct WireAccount {
    #[serde(default, deserialize_with = "null_is_default")]
    id: Box<str>,
}

#[derive(Default, Deserialize)]
struct WirePlan {
    #[serde(default, deserialize_with = "null_is_default")]
    legacy_id: Box<str>,
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireZone::deserialize(deserializer)?;
        Ok(Self {
            id: wire.id,
            // The specification says punycode, but Unicode was seen too.
            name: hostname::normalize(&wire.name).into(),
            account: AccountId::new(wire.account.id),
            plan: match &*wire.plan.legacy_id {
                "" | "free" => ZonePlan::Free,
                _ => ZonePlan::Paid,
            },
            status: wire.status,
            paused: wire.paused,
        })
    }
}

impl Client {
    /// Every zone that the credentials can see, ordered by id.
    pub fn zones(&self, deadline: Deadline) -> Result<Vec<Zone>, Error> {
        let (mut zones, _): (Vec<Zone>, f64) =
            self.list(ApiResource::Zones, &path(&["zones"]), "", ZONES_PER_PAGE, deadline)?;
        zones.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        // A zone added between two page reads pushes another one onto the next page.
        zones.dedup_by(|a, b| a.id == b.id);
        Ok(zones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::fixture::{Fixture, success};

    #[test]
    fn zones_are_read_with_what_limits_depend_on() {
        let fixture = Fixture::new([success(
            r#"[
                {"id":"z2","name":"Example.COM","account":{"id":"a1","name":"Shop"},"plan":{"legacy_id":"business","price":200},
                 "status":"active","paused":true,"name_servers":["a.ns"],"meta":{"step":2}},
                {"id":"z1","name":"free.example","account":{"id":"a1"},"plan":{"legacy_id":"free"},"status":"pending","paused":false},
                {"id":"z4","name":"BÜCHER.example"},
                {"id":"z3","name":"bare.example","account":null,"plan":null,"status":null,"paused":null}
            ]"#,
        )]);
        let zones = fixture.client.zones(fixture.deadline()).unwrap();
        let zone = |id: &str, name: &str, account: &str, plan, status: &str, paused| Zone {
            id: ZoneId::new(id),
            name: name.into(),
            account: AccountId::new(account),
            plan,
            status: status.into(),
            paused,
        };
        assert_eq!(
            zones,
            [
                zone("z1", "free.example", "a1", ZonePlan::Free, "pending", false),
                zone("z2", "example.com", "a1", ZonePlan::Paid, "active", true),
                zone("z3", "bare.example", "", ZonePlan::Free, "", false),
                zone("z4", "xn--bcher-kva.example", "", ZonePlan::Free, "", false),
            ]
        );
    }
}
