//! Networks in which one family of addresses does not work, made with namespaces of the kernel.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{
    BaseUrl, Client, ClientSettings, Credentials, roots,
};
use external_dns_cloudflare_tunnel_webhook::model::ZoneId;
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use test_support::own_process::{is_own_process, own_process};

/// How late the server answers, as one far away does.
const DELAY: Duration = Duration::from_millis(300);

/// As Cloudflare's: six addresses of each family.
const HOSTS: &str = "\
    2001:db8::1 api.example\n2001:db8::2 api.example\n2001:db8::3 api.example\n\
    2001:db8::4 api.example\n2001:db8::5 api.example\n2001:db8::6 api.example\n\
    203.0.113.1 api.example\n203.0.113.2 api.example\n203.0.113.3 api.example\n\
    203.0.113.4 api.example\n203.0.113.5 api.example\n203.0.113.6 api.example\n";

/// A device `black` from which nothing comes. Not every kernel has dummies; without ARP it sends to neighbours that are
/// not there.
const NETWORK: &str = "set -e
    ip link set lo up
    ip link add black type dummy 2>/dev/null || ip link add black type veth peer name hole
    ip link set hole up 2>/dev/null || true
    ip link set black arp off up
    ip -6 address add 2001:db8:ff::1/64 dev black nodad
    mount --bind \"$HOSTS_FILE\" /etc/hosts
    mount --bind /dev/null /etc/resolv.conf\n";

const IPV4_WORKS: &str = "ip address add 203.0.113.0/24 dev lo\n";
const IPV6_WORKS: &str = "ip -6 route add local 2001:db8::/48 dev lo\n";

/// The same command in namespaces of its own.
fn in_namespaces(command: &Command) -> Command {
    let hosts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("families-hosts");
    fs::write(&hosts, HOSTS).unwrap();
    let mut isolated = Command::new("unshare");
    isolated
        .args(["--map-root-user", "--net", "--mount"])
        .arg(command.get_program())
        .args(command.get_args())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("HOSTS_FILE", &hosts);
    isolated
}

#[test]
fn where_one_family_does_not_work_the_first_call_takes_less_than_three_seconds_and_the_next_as_usual() {
    if is_own_process() {
        return measure_calls();
    }
    let try_network = in_namespaces(Command::new("sh").args(["-c", NETWORK])).output();
    if !try_network.as_ref().is_ok_and(|output| output.status.success()) {
        // Past the harness, which keeps what a test prints.
        let _ = writeln!(io::stderr(), "SKIPPED: no network namespace can be made here: {try_network:?}");
        return;
    }
    let test = "families::where_one_family_does_not_work_the_first_call_takes_less_than_three_seconds_and_the_next_as_usual";
    for (works, route) in [
        (IPV4_WORKS, "ip -6 route add 2001:db8::/48 dev black"),
        (IPV4_WORKS, "ip -6 route add prohibit 2001:db8::/48"),
        (IPV6_WORKS, "ip address add 10.9.9.9/32 dev black; ip route add 203.0.113.0/24 dev black"),
        (IPV6_WORKS, "ip route add prohibit 203.0.113.0/24"),
        (IPV6_WORKS, "ip route add unreachable 203.0.113.0/24"),
        (IPV6_WORKS, "ip route add blackhole 203.0.113.0/24"),
        (IPV6_WORKS, ""),
    ] {
        let network = format!("{NETWORK}{works}{route}");
        let output = in_namespaces(&own_process(test, &network)).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{route}: {printed}");
    }
}

fn measure_calls() {
    let listener = TcpListener::bind("[::]:0").expect("a free port");
    let base_url = format!("http://api.example:{}", listener.local_addr().expect("it is bound").port());
    thread::spawn(move || listener.incoming().flatten().for_each(answer_late));
    let settings = ClientSettings {
        base_url: BaseUrl::parse(&base_url).expect("an address"),
        credentials: Credentials {
            secret: Secret::parse("a-token-that-is-not-looked-at").expect("a token"),
            email: None,
        },
        credential_file: None,
        roots: roots(None).expect("the compiled-in ones"),
        proxy: None,
    };
    let client = Client::new(settings, Arc::new(SystemClock), Arc::default());
    let [first, others @ ..] = [(); 3].map(|()| {
        let begun = Instant::now();
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(10));
        client.records(&ZoneId::new("z1"), deadline).expect("the list");
        begun.elapsed()
    });
    assert!(first < Duration::from_secs(3), "{first:?}");
    // A second more would be the look at the other family again.
    assert!(others.iter().all(|taken| *taken < DELAY + Duration::from_millis(900)), "{others:?}");
}

/// With an empty list, on a connection that is closed then.
fn answer_late(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    thread::sleep(DELAY);
    let list = r#"{"success":true,"errors":[],"messages":[],"result":[]}"#;
    let length = list.len();
    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{list}");
    let _ = stream.write_all(answer.as_bytes());
}
