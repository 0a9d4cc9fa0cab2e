//! Remembers since when hostnames that changed their tunnel have been led to the new one, and since when others have
//! waited for it.
//!
//! The memory is lost with the process; then the time counts anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::model::TunnelId;
use crate::reconcile::plan::{Earlier, Plan};

/// A move that has waited this long is answered as done as far as possible: by then ten loops of ExternalDNS have
/// failed for it.
const MOVE_PATIENCE: Duration = Duration::from_secs(600);

/// The most that a withdrawn hostname stays beyond `MOVE_GRACE` if its record cannot be led to the wildcard's tunnel
/// that takes it over; the same for a withdrawn path whose hostname waits to move. Withdrawals have to happen, so this
/// is three loops.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(180);

/// Patience ends only after so many requests, however long ExternalDNS was away between them.
const REQUESTS_MIN: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Hostnames that were led over a short time ago, or have rules left at their old tunnel; the tunnel that they are
    /// led to, and the time since then.
    led: BTreeMap<Box<str>, (TunnelId, Instant)>,
    /// Tunnels that do not serve yet what is to move to them.
    awaited: BTreeMap<TunnelId, Wait>,
    /// Withdrawn hostnames that stay until a wildcard's tunnel has their visitors.
    handed_over: BTreeMap<Box<str>, Wait>,
    /// How many requests there were.
    requests: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    /// The number of the request that began it.
    request: u64,
}

impl Moves {
    /// A request has come, which may be planned several times.
    pub(crate) fn next_request(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// A record has been led over, or may have been.
    pub(crate) fn begin(&mut self, hostname: &str, tunnel: TunnelId, now: Instant) {
        self.led.insert(hostname.into(), (tunnel, now));
    }

    /// Takes over the moves that a reading shows. If a hostname is led to another tunnel than before, its time begins
    /// anew. Those that leave nothing behind are forgotten after `grace`.
    pub(crate) fn see(&mut self, left_behind: BTreeMap<Box<str>, TunnelId>, grace: Duration, now: Instant) {
        let mut before = std::mem::take(&mut self.led);
        for (hostname, tunnel) in left_behind {
            let since = before.remove(&hostname).filter(|(led_to, _)| *led_to == tunnel);
            let since = since.map_or(now, |(_, since)| since);
            self.led.insert(hostname, (tunnel, since));
        }
        for (hostname, led) in before {
            if !is_over(led.1, grace, now) {
                self.led.insert(hostname, led);
            }
        }
    }

    /// The hostnames that have been led to their present tunnel for `grace`, or have waited longer to be handed over.
    pub(crate) fn earlier(&self, grace: Duration, now: Instant) -> Earlier {
        let mut earlier = Earlier::default();
        for (hostname, (tunnel, since)) in &self.led {
            if is_over(*since, grace, now) {
                earlier.moved.insert(hostname.clone());
            } else {
                earlier.moving.insert(hostname.clone(), tunnel.clone());
            }
        }
        let patience = grace + HAND_OVER_PATIENCE;
        let handed_over = self.handed_over.iter().filter(|(_, wait)| self.exceeds(wait, patience, now));
        let late = self.awaited.iter().filter(|(_, wait)| self.exceeds(wait, HAND_OVER_PATIENCE, now));
        earlier.late.extend(late.map(|(tunnel, _)| tunnel.clone()));
        earlier.handed_over.extend(handed_over.map(|(hostname, _)| hostname.clone()));
        earlier
    }

    /// Forgets what `plan` no longer waits for, and notes what it hands over.
    pub(crate) fn follow(&mut self, plan: &Plan, now: Instant) {
        let is_awaited =
            |tunnel: &TunnelId| plan.hosts.iter().any(|host| host.moves_to.as_ref() == Some(tunnel));
        self.awaited.retain(|tunnel, _| is_awaited(tunnel));
        self.handed_over.retain(|hostname, _| {
            // A request is planned several times, and all of them have to let it go.
            let goes = plan.host(hostname).is_some_and(|host| host.vanishes || host.withdraws());
            goes || plan.handed_over.contains(hostname) || plan.waiting.contains(hostname)
        });
        let wait = self.wait_from(now);
        for hostname in plan.handed_over.iter().chain(&plan.waiting) {
            self.handed_over.entry(hostname.clone()).or_insert(wait);
        }
    }

    /// Of these tunnels, which hostnames move to, some are late and the others are ready.
    pub(crate) fn wait_for(
        &mut self,
        tunnels: &BTreeSet<&TunnelId>,
        is_late: impl Fn(&TunnelId) -> bool,
        now: Instant,
    ) {
        let wait = self.wait_from(now);
        for tunnel in tunnels {
            if is_late(tunnel) {
                self.awaited.entry((*tunnel).clone()).or_insert(wait);
            } else {
                self.awaited.remove::<TunnelId>(tunnel);
            }
        }
    }

    /// True if the tunnel has been late for so long that no request waits for it any more.
    pub(crate) fn has_given_up(&self, tunnel: &TunnelId, now: Instant) -> bool {
        self.awaited.get(tunnel).is_some_and(|wait| self.exceeds(wait, MOVE_PATIENCE, now))
    }

    fn wait_from(&self, now: Instant) -> Wait {
        Wait { since: now, request: self.requests }
    }

    fn exceeds(&self, wait: &Wait, patience: Duration, now: Instant) -> bool {
        self.requests - wait.request >= REQUESTS_MIN && now.saturating_duration_since(wait.since) >= patience
    }
}

fn is_over(since: Instant, grace: Duration, now: Instant) -> bool {
    now.saturating_duration_since(since) >= grace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::put;
    use crate::ingress::RuleEdit;
    use crate::model::Hostname;
    use crate::provider::memory::year;
    use crate::reconcile::plan::{HostPlan, Stage};

    fn tunnel(digit: char) -> TunnelId {
        TunnelId::parse(&format!("{digit}70ff985-a4ef-4643-bbbc-4a0ed4fc8415")).expect("an id")
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to count from")]
    fn a_hostname_is_settled_when_it_was_led_to_one_tunnel_for_the_whole_grace() {
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let mut moves = Moves::default();
        let shown = |digit| BTreeMap::from([("a.example.com".into(), tunnel(digit))]);
        let earlier =
            |moves: &Moves, seconds| moves.earlier(grace, start + Duration::from_secs(seconds)).moved.len();
        moves.begin("a.example.com", tunnel('a'), start);
        moves.see(shown('a'), grace, start + Duration::from_secs(20));
        assert_eq!((earlier(&moves, 29), earlier(&moves, 30)), (0, 1));
        moves.see(shown('b'), grace, start + Duration::from_secs(40));
        assert_eq!((earlier(&moves, 69), earlier(&moves, 70)), (0, 1), "led elsewhere, it waits anew");
        moves.see(BTreeMap::new(), grace, start + Duration::from_secs(80));
        assert_eq!(earlier(&moves, 200), 0, "what is not left behind any more is forgotten");
    }

    /// Its visitors may come from a wildcard's rule.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to count from")]
    fn a_hostname_that_left_no_rule_of_its_own_behind_is_moving_for_the_grace() {
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let mut moves = Moves::default();
        moves.begin("a.example.com", tunnel('a'), start);
        for (seconds, expected) in [(29, 1), (30, 0)] {
            let now = start + Duration::from_secs(seconds);
            moves.see(BTreeMap::new(), grace, now);
            let earlier = moves.earlier(grace, now);
            assert_eq!((earlier.moving.len(), earlier.moved.len()), (expected, 0), "{seconds}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to count from")]
    fn patience_ends_for_the_tunnel_that_was_awaited_all_the_time() {
        let start = Instant::now();
        let (one, other) = (tunnel('a'), tunnel('b'));
        let mut moves = Moves::default();
        moves.wait_for(&[&one].into(), |_| true, start);
        (0..REQUESTS_MIN).for_each(|_| moves.next_request());
        let late = start + MOVE_PATIENCE;
        moves.wait_for(&[&one, &other].into(), |_| true, late);
        assert!(moves.has_given_up(&one, late) && !moves.has_given_up(&other, late));
        moves.wait_for(&[&other].into(), |_| true, late);
        assert!(moves.has_given_up(&one, late), "whoever comes later is asked for apart");
        moves.wait_for(&[&one, &other].into(), |tunnel| *tunnel == other, late);
        moves.wait_for(&[&one, &other].into(), |_| true, late);
        assert!(!moves.has_given_up(&one, late), "it was ready in between");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to count from")]
    fn patience_does_not_end_while_external_dns_is_away() {
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let tunnel = tunnel('a');
        let waiting = Plan { handed_over: vec!["a.example.com".into()], ..Plan::default() };
        let (mut hostnames, mut tunnels) = (Moves::default(), Moves::default());
        for requests in 0..=REQUESTS_MIN {
            // Each is planned several times.
            for _ in 0..3 {
                hostnames.follow(&waiting, start);
                tunnels.wait_for(&[&tunnel].into(), |_| true, start);
            }
            let earlier = |moves: &Moves| moves.earlier(grace, start + Duration::from_secs(86_400));
            let is_over = requests == REQUESTS_MIN;
            assert_eq!(earlier(&hostnames).handed_over.len(), usize::from(is_over));
            assert_eq!(earlier(&tunnels).late.len(), usize::from(is_over));
            hostnames.next_request();
            tunnels.next_request();
        }
    }

    /// Each plan of a request has to let it go. What stays, or is not asked for, waits anew when it is withdrawn again.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to count from")]
    fn what_has_waited_long_enough_goes_in_every_plan_of_a_request_and_is_forgotten_when_it_stays() {
        const NAME: &str = "a.example.com";
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let late = start + grace + HAND_OVER_PATIENCE;
        let one = |host: HostPlan| Plan { hosts: vec![host], ..Plan::default() };
        let hostname = Hostname::parse(NAME).expect("a hostname");
        let edited = |edit| HostPlan {
            edits: [(Stage::Publish, vec![(tunnel('a'), edit)])].into(),
            ..HostPlan::empty(NAME, None)
        };
        let handed_over = Plan { handed_over: vec![NAME.into()], ..Plan::default() };
        let waiting = Plan { waiting: vec![NAME.into()], ..Plan::default() };
        for begun in [&handed_over, &waiting] {
            for (label, plan, is_kept) in [
                ("the hostname goes", one(HostPlan { vanishes: true, ..HostPlan::empty(NAME, None) }), true),
                (
                    "a path goes",
                    one(edited(RuleEdit::Remove { hostname: hostname.clone(), path: None })),
                    true,
                ),
                ("it still waits", handed_over.clone(), true),
                ("a path still waits", waiting.clone(), true),
                ("it is written and stays", one(edited(put(NAME, "http://a:80"))), false),
                (
                    "another goes",
                    one(HostPlan { vanishes: true, ..HostPlan::empty("b.example.com", None) }),
                    false,
                ),
                ("nothing is asked for", Plan::default(), false),
            ] {
                let mut moves = Moves::default();
                moves.follow(begun, start);
                (0..REQUESTS_MIN).for_each(|_| moves.next_request());
                moves.follow(&plan, late);
                assert_eq!(moves.earlier(grace, late).handed_over.contains(NAME), is_kept, "{label}");
            }
        }
    }

    #[test]
    fn a_year_of_other_moves_in_every_loop_leaves_those_of_the_last_one() {
        let mut moves = Moves::default();
        for (number, now) in year::loops() {
            let id = format!("{number:08x}-a4ef-4643-bbbc-4a0ed4fc8415");
            let (hostname, tunnel) = (format!("h{number}.example.com"), TunnelId::parse(&id).expect("an id"));
            let left_behind = BTreeMap::from([(hostname.as_str().into(), tunnel.clone())]);
            moves.see(left_behind, Duration::from_secs(30), now);
            moves.follow(&Plan { handed_over: vec![hostname.as_str().into()], ..Plan::default() }, now);
            moves.wait_for(&[&tunnel].into(), |_| true, now);
            moves.begin(&hostname, tunnel, now);
            assert_eq!((moves.led.len(), moves.awaited.len(), moves.handed_over.len()), (1, 1, 1));
        }
    }
}
