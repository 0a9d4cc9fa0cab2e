//! The figures of docs/operations.md, as a Markdown table: `just figures`.
//!
//! Measures the static release binary (or the one `WEBHOOK_BINARY` names) as ExternalDNS would see it: started as a
//! process against the emulator of Cloudflare, spoken to over a socket, its memory read from `/proc`. Each line is a
//! fresh process, so that no figure carries another one's peak. Fails when the program answers wrongly, never when a
//! figure misses its aim: the aims stand beside the figures.

#![allow(
    clippy::disallowed_methods,
    reason = "a measurement reads the time, the environment, and sleeps while it polls"
)]

mod program;

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};

use crate::program::{Account, Program, read_kept_alive, request};

type Outcome<T> = Result<T, Box<dyn Error>>;

const NAME: &str = "external-dns-cloudflare-tunnel-webhook";

/// What the project aims at. Misses are shown, not failed.
const SIZE_AIM_BYTES: u64 = 2_500_000;
const START_AIM: Duration = Duration::from_millis(5);
const IDLE_AIM_KIB: u64 = 2 * 1024;
const CONNECTIONS_AIM_KIB: u64 = 6 * 1024;
const ADJUST_AIM: Duration = Duration::from_millis(15);
const ADJUST_AIM_KIB: u64 = 12 * 1024;
/// What one object with too many properties may cost, as a multiple of what is asked in order costs for as many bytes.
const EXCESS_AIM: f64 = 3.0;
const LOOP_AIM_KIB: u64 = 16 * 1024;

const STARTS: usize = 20;
const IDLE_CONNECTIONS: usize = 200;
const ENDPOINTS: usize = 5_000;
/// A process's CPU time is told in ticks: over so many requests the mean is good to half a millisecond.
const POSTS: u32 = 20;
/// What Kubernetes allows for the annotations of one object.
const EXCESS_BYTES: usize = 256 * 1024;
const EXCESS_GROUPS: usize = 64;
const EXCESS_HOSTNAMES: usize = 100;
const EXCESS_POSTS: u32 = 3;
const NEIGHBOURS: usize = 1_000;
const RECORDS: usize = 5_000;
const RULES: usize = 1_000;

/// The most applications of an account, beside so many hostnames.
const LOGINS: usize = 500;
const HOSTNAMES_WITH_LOGINS: [usize; 2] = [1_000, 5_000];
/// What a loop may cost with logins, as a multiple of the same without one.
const LOGINS_AIM: f64 = 3.0;
/// A request makes as many applications as its time allows.
const PUBLISHING_LOOPS: usize = 30;
const LOOPS: u32 = 5;
const POLICY: &str = "staff";

/// Endpoints of one hostname, and what so many more may cost for each.
const ENDPOINTS_OF_ONE: [usize; 2] = [4_000, 16_000];
const ENDPOINTS_AIM: f64 = 2.0;

/// Records of an account, most of them made by others, in so many zones.
const MANY_RECORDS: usize = 60_000;
const MANY_HOSTNAMES: usize = 10_000;
const ZONES: [usize; 2] = [1, 20];
const MANY_RECORDS_AIM: Duration = Duration::from_millis(400);

/// What a process may do after its first answer before it counts as idle: reading its token, tunnels and zones.
const SETTLING: Duration = Duration::from_millis(500);

fn main() -> Outcome<()> {
    // `cargo test --all-targets` runs benches too, without this argument: there is nothing to test here.
    if !env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let binary = binary()?;
    let mut table = Table::new()?;
    size_and_linkage(&binary, &mut table)?;
    start(&binary, &mut table)?;
    idle(&binary, &mut table)?;
    connections(&binary, &mut table)?;
    adjust(&binary, &mut table)?;
    one_loop(&binary, &mut table)?;
    logins(&binary, &mut table)?;
    one_hostname(&binary, &mut table)?;
    many_records(&binary, &mut table)?;
    print!("{}", table.text);
    Ok(())
}

fn binary() -> Outcome<PathBuf> {
    let path = env::var_os("WEBHOOK_BINARY").map_or_else(
        || {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
            target.join("x86_64-unknown-linux-musl/release").join(NAME)
        },
        PathBuf::from,
    );
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} is not there: `just static` builds it", path.display()).into())
    }
}

fn size_and_linkage(binary: &Path, table: &mut Table) -> Outcome<()> {
    let content = fs::read(binary)?;
    let bytes = u64::try_from(content.len())?;
    table.line("binary, x86_64 musl", &format!("{bytes} bytes"), &format!("{SIZE_AIM_BYTES} bytes"))?;
    let linkage = if asks_for_an_interpreter(&content)? { "dynamic" } else { "static" };
    table.line("linkage", linkage, "static")
}

/// Whether the program headers of a 64-bit little-endian ELF file name a dynamic loader.
fn asks_for_an_interpreter(elf: &[u8]) -> Outcome<bool> {
    const PT_INTERP: u32 = 3;
    const NOT_ELF: &str = "the binary is no 64-bit little-endian ELF file";
    if elf.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        return Err(NOT_ELF.into());
    }
    let number = |offset: usize, width: usize| -> Outcome<usize> {
        let bytes = elf.get(offset..offset + width).ok_or(NOT_ELF)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    // Offset, entry size and number of the program headers, from the file header.
    let (offset, entry_size, entries) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for entry in 0..entries {
        if number(offset + entry * entry_size, 4)? == usize::try_from(PT_INTERP)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From the moment before the process is made to the last byte of the first `GET /`.
fn start(binary: &Path, table: &mut Table) -> Outcome<()> {
    let account = Account::with_records(0)?;
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let program = Program::start(binary, &account)?;
        times.push(program.first_answer);
    }
    times.sort_unstable();
    let median = times.get(STARTS / 2).copied().unwrap_or_default();
    table.line(
        &format!("start to the first answer, median of {STARTS}"),
        &milliseconds(median),
        &milliseconds(START_AIM),
    )
}

fn idle(binary: &Path, table: &mut Table) -> Outcome<()> {
    let account = Account::with_records(0)?;
    let program = Program::start(binary, &account)?;
    thread::sleep(SETTLING);
    table.memory("resident memory, idle", &program, IDLE_AIM_KIB)
}

fn connections(binary: &Path, table: &mut Table) -> Outcome<()> {
    let account = Account::with_records(0)?;
    let program = Program::start(binary, &account)?;
    let mut open = Vec::with_capacity(IDLE_CONNECTIONS);
    for _ in 0..IDLE_CONNECTIONS {
        // Used once and kept, as ExternalDNS keeps its own.
        let mut connection = program.connect()?;
        connection.write_all(request("GET", "/", "", true).as_bytes())?;
        read_kept_alive(&mut connection)?;
        open.push(connection);
    }
    thread::sleep(SETTLING);
    let label = format!("resident memory, {IDLE_CONNECTIONS} idle connections on the API port");
    table.memory(&label, &program, CONNECTIONS_AIM_KIB)?;
    drop(open);
    Ok(())
}

fn adjust(binary: &Path, table: &mut Table) -> Outcome<()> {
    let friendly = Posted::measure(binary, &endpoints(ENDPOINTS), ENDPOINTS, POSTS)?;
    let what = format!("POST of {ENDPOINTS} endpoints");
    friendly.lines(&what, &milliseconds(ADJUST_AIM), table)?;
    let unfriendly = Posted::measure(binary, &unfriendly_endpoints(ENDPOINTS), ENDPOINTS, POSTS)?;
    let what = format!("{what} with three labels and four unknown properties each");
    unfriendly.lines(&what, &milliseconds(ADJUST_AIM), table)?;

    let mut endpoints = endpoints(NEIGHBOURS);
    if let (Some(endpoints), Value::Array(excess)) = (endpoints.as_array_mut(), endpoints_in_excess()) {
        endpoints.extend(excess);
    }
    let excess = Posted::measure(binary, &endpoints, NEIGHBOURS, EXCESS_POSTS)?;
    let what = format!(
        "POST of {NEIGHBOURS} endpoints beside an object with {} KiB of properties on {EXCESS_HOSTNAMES} hostnames",
        EXCESS_BYTES / 1024
    );
    let aim = friendly.cpu.mul_f64(EXCESS_AIM * excess.bytes as f64 / friendly.bytes as f64);
    excess.lines(&what, &milliseconds(aim), table)
}

/// What `POST /adjustendpoints` took.
struct Posted {
    bytes: usize,
    /// Of one request, in user and kernel.
    cpu: Duration,
    wall: Duration,
    /// Resident, and at its highest, after the first request.
    memory_kib: (u64, u64),
}

impl Posted {
    /// Sends the same body to a fresh process again and again. Every answer must hold the shops, the first so many.
    fn measure(binary: &Path, body: &Value, shops: usize, posts: u32) -> Outcome<Self> {
        let account = Account::with_records(0)?;
        let program = Program::start(binary, &account)?;
        thread::sleep(SETTLING);
        let body = body.to_string();
        let before = program.cpu_time()?;
        let mut wall = Duration::ZERO;
        let mut memory_kib = (0, 0);
        for post in 0..posts {
            let begun = Instant::now();
            let answer = program.post_text("/adjustendpoints", &body)?;
            wall += begun.elapsed();
            if post == 0 {
                memory_kib = program.memory_kib()?;
            }
            let adjusted: Vec<Value> = serde_json::from_slice(&answer)?;
            let present =
                adjusted.iter().filter(|endpoint| endpoint["dnsName"].as_str().is_some_and(is_shop));
            if present.count() != shops {
                return Err("POST /adjustendpoints did not answer every endpoint".into());
            }
        }
        Ok(Self {
            bytes: body.len(),
            cpu: (program.cpu_time()? - before) / posts,
            wall: wall / posts,
            memory_kib,
        })
    }

    fn lines(&self, what: &str, cpu_aim: &str, table: &mut Table) -> Outcome<()> {
        let Self { bytes, cpu, wall, memory_kib } = self;
        let megabytes = *bytes as f64 / 1e6;
        table.line(
            &format!("CPU time of one {what}, {megabytes:.1} MB (answered after {})", milliseconds(*wall)),
            &milliseconds(*cpu),
            cpu_aim,
        )?;
        table.memory_of("resident memory after one such", *memory_kib, ADJUST_AIM_KIB)
    }
}

/// One loop of ExternalDNS that finds nothing to do, over hostnames that the program itself published before.
fn one_loop(binary: &Path, table: &mut Table) -> Outcome<()> {
    let account = Account::with_records(RECORDS - RULES)?;
    let wanted = endpoints(RULES);
    let publisher = Program::start(binary, &account)?;
    let canonical: Value = serde_json::from_slice(&publisher.post("/adjustendpoints", &wanted)?)?;
    publisher.post("/records", &json!({ "create": canonical }))?;
    drop(publisher);

    let program = Program::start(binary, &account)?;
    thread::sleep(SETTLING);
    let begun = Instant::now();
    let present: Value = serde_json::from_slice(&program.get("/records")?)?;
    let adjusted: Value = serde_json::from_slice(&program.post("/adjustendpoints", &wanted)?)?;
    let took = begun.elapsed();
    if present.as_array().map(Vec::len) != Some(RULES) || adjusted.as_array().map(Vec::len) != Some(RULES) {
        return Err("the loop did not see every published hostname".into());
    }
    let label = format!(
        "resident memory after a loop over {RECORDS} records and {RULES} rules ({})",
        milliseconds(took)
    );
    table.memory(&label, &program, LOOP_AIM_KIB)
}

/// Loops over many hostnames, of which many have a login, beside the same without one.
fn logins(binary: &Path, table: &mut Table) -> Outcome<()> {
    for hostnames in HOSTNAMES_WITH_LOGINS {
        let plain = loop_of(binary, hostnames, 0)?;
        let protected = loop_of(binary, hostnames, LOGINS)?;
        let parts = ["GET /records", "POST /adjustendpoints", "POST /records of one change"];
        for ((part, plain), protected) in parts.into_iter().zip(plain).zip(protected) {
            let what = format!(
                "CPU time of {part}, {hostnames} hostnames, {LOGINS} with a login (without: {})",
                milliseconds(plain)
            );
            table.line(&what, &milliseconds(protected), &milliseconds(plain.mul_f64(LOGINS_AIM)))?;
        }
    }
    Ok(())
}

/// The CPU time of each part of a loop, over hostnames that the program has published.
fn loop_of(binary: &Path, hostnames: usize, logins: usize) -> Outcome<[Duration; 3]> {
    loop_over(binary, &Account::with_records(0)?, hostnames, logins)
}

/// The same over an account that has records of others.
fn loop_over(binary: &Path, account: &Account, hostnames: usize, logins: usize) -> Outcome<[Duration; 3]> {
    account.emulator.set_up_access("figures");
    account
        .emulator
        .add_policy(&json!({
            "name": POLICY,
            "decision": "allow",
            "include": [{ "email": { "email": "jo@example.com" } }],
        }))
        .map_err(|refusal| format!("{refusal:?}"))?;
    let mut wanted = endpoints(hostnames);
    for endpoint in wanted.as_array_mut().into_iter().flatten().take(logins) {
        let properties = endpoint.get_mut("providerSpecific").and_then(Value::as_array_mut);
        properties
            .into_iter()
            .for_each(|all| all.push(json!({ "name": "webhook/access-policy", "value": POLICY })));
    }
    let mut program = Program::start(binary, account)?;
    let list = |answer: Vec<u8>| -> Outcome<Vec<Value>> { Ok(serde_json::from_slice(&answer)?) };
    let mut published = 0;
    for _ in 0..PUBLISHING_LOOPS {
        let present = list(program.get("/records")?)?;
        published = present.len();
        if published == hostnames {
            break;
        }
        let adjusted = list(program.post("/adjustendpoints", &wanted)?)?;
        let names: HashSet<&str> = present.iter().filter_map(|one| one["dnsName"].as_str()).collect();
        let is_new = |one: &Value| one["dnsName"].as_str().is_some_and(|name| !names.contains(name));
        let create: Vec<&Value> = adjusted.iter().filter(|one| is_new(one)).collect();
        // While applications are made it is answered 503. A fresh process has all the calls of a window.
        let _ = program.post("/records", &json!({ "create": create }));
        program = Program::start(binary, account)?;
        thread::sleep(SETTLING);
    }
    if published != hostnames {
        return Err(format!("{published} of {hostnames} hostnames were published").into());
    }
    let mut times = [Duration::ZERO; 3];
    for number in 0..LOOPS {
        let begun = program.cpu_time()?;
        program.get("/records")?;
        let shown = program.cpu_time()?;
        let adjusted = list(program.post("/adjustendpoints", &wanted)?)?;
        let adjusted_at = program.cpu_time()?;
        let last = format!("shop-{}.example.com", hostnames - 1);
        let mut old =
            adjusted.into_iter().find(|one| one["dnsName"] == *last).ok_or("a hostname is missing")?;
        let labels = old.get_mut("labels").and_then(Value::as_object_mut);
        labels.ok_or("no labels")?.insert("owner".to_owned(), "default".into());
        let mut new = old.clone();
        for property in properties_of(&mut new) {
            if property["name"] == "webhook/tunnel-service" {
                *property.get_mut("value").ok_or("a property without a value")? =
                    format!("http://other-{number}.shop.svc:8080").into();
            }
        }
        let changes_begun = program.cpu_time()?;
        program.post("/records", &json!({ "updateOld": [old], "updateNew": [new] }))?;
        let done = program.cpu_time()?;
        let parts = [shown - begun, adjusted_at - shown, done - changes_begun];
        for (time, part) in times.iter_mut().zip(parts) {
            *time += part / LOOPS;
        }
    }
    Ok(times)
}

fn properties_of(endpoint: &mut Value) -> impl Iterator<Item = &mut Value> {
    let properties = endpoint.get_mut("providerSpecific").and_then(Value::as_array_mut);
    properties.into_iter().flatten()
}

/// Many endpoints of one hostname, a hundred of each object.
fn one_hostname(binary: &Path, table: &mut Table) -> Outcome<()> {
    let mut least = None;
    for count in ENDPOINTS_OF_ONE {
        let account = Account::with_records(0)?;
        let program = Program::start(binary, &account)?;
        let wanted: Value = (0..count).map(|number| json!({
            "dnsName": "shop.example.com",
            "recordType": "CNAME",
            "targets": ["http://shop.shop.svc:8080"],
            "labels": { "resource": format!("crd/shop/shop-{}", number / 100) },
            "providerSpecific": [{ "name": "webhook/tunnel-path-prefix", "value": format!("/part-{number}") }],
        })).collect();
        program.get("/records")?;
        let adjusted: Value = serde_json::from_slice(&program.post("/adjustendpoints", &wanted)?)?;
        let begun = program.cpu_time()?;
        program.post("/records", &json!({ "create": adjusted }))?;
        let took = program.cpu_time()? - begun;
        let of_each = took.as_secs_f64() / count as f64;
        let aim = least.map_or_else(
            || "-".to_owned(),
            |least: f64| milliseconds(Duration::from_secs_f64(least * ENDPOINTS_AIM * count as f64)),
        );
        least.get_or_insert(of_each);
        table.line(
            &format!("CPU time of POST /records with {count} endpoints of one hostname"),
            &milliseconds(took),
            &aim,
        )?;
    }
    Ok(())
}

/// A quiet loop, and a loop of one change, beside very many records of others.
fn many_records(binary: &Path, table: &mut Table) -> Outcome<()> {
    for zones in ZONES {
        let account = Account::with_records(0)?;
        for number in 0..zones {
            account.add_foreign(number, (MANY_RECORDS - MANY_HOSTNAMES) / zones)?;
        }
        let [shown, _, changed] = loop_over(binary, &account, MANY_HOSTNAMES, 0)?;
        let beside = format!("{MANY_RECORDS} records in {zones} zones, {MANY_HOSTNAMES} of them published");
        table.line(
            &format!("CPU time of GET /records, {beside}"),
            &milliseconds(shown),
            &milliseconds(MANY_RECORDS_AIM),
        )?;
        table.line(
            &format!("CPU time of POST /records of one change, {beside}"),
            &milliseconds(changed),
            &milliseconds(MANY_RECORDS_AIM),
        )?;
    }
    Ok(())
}

fn is_shop(name: &str) -> bool {
    name.starts_with("shop-")
}

fn endpoints(count: usize) -> Value {
    (0..count)
        .map(|number| {
            json!({
                "dnsName": format!("shop-{number}.example.com"),
                "recordType": "CNAME",
                "targets": [format!("http://shop-{number}.shop.svc:8080")],
                "labels": { "resource": format!("ingress/shop/shop-{number}") },
                "providerSpecific": [{ "name": "webhook/origin-connect-timeout", "value": "10s" }],
            })
        })
        .collect()
}

/// The same, with more labels, and in place of the option names that are none: two near a known one, two far from all.
fn unfriendly_endpoints(count: usize) -> Value {
    (0..count)
        .map(|number| {
            json!({
                "dnsName": format!("shop-{number}.example.com"),
                "recordType": "CNAME",
                "recordTTL": 300,
                "targets": [format!("http://shop-{number}.shop.svc:8080")],
                "labels": {
                    "managed-by": "team-storefront",
                    "ownedRecord": format!("shop-{number}.example.com"),
                    "resource": format!("ingress/shop/shop-{number}"),
                },
                "providerSpecific": [
                    { "name": "webhook/origin-conect-timeout", "value": "10s" },
                    { "name": "webhook/origin-no-tls-verfy", "value": "true" },
                    { "name": "webhook/colour-of-the-shop", "value": "blue" },
                    { "name": "webhook/team", "value": "storefront" },
                ],
            })
        })
        .collect()
}

/// One object with all the properties that it can have, in many groups, on many hostnames: each hostname has all of
/// them.
fn endpoints_in_excess() -> Value {
    const VALUE: &str = "what an object keeps in an annotation: a list, a script, a certificate; ";
    let mut properties = Vec::new();
    let mut bytes = 0;
    while bytes < EXCESS_BYTES {
        let (group, kind) = (properties.len() % EXCESS_GROUPS, properties.len() / EXCESS_GROUPS);
        let (name, value) = match kind {
            0 => {
                (format!("webhook/tunnel-service.part-{group}"), format!("http://part-{group}.shop.svc:8080"))
            }
            1 => (format!("webhook/tunnel-path-prefix.part-{group}"), format!("/part-{group}")),
            _ => (format!("webhook/note-{kind}.part-{group}"), VALUE.repeat(3)),
        };
        bytes += name.len() + value.len();
        properties.push(json!({ "name": name, "value": value }));
    }
    (0..EXCESS_HOSTNAMES)
        .map(|number| {
            json!({
                "dnsName": format!("excess-{number}.example.com"),
                "recordType": "A",
                "targets": ["192.0.2.7"],
                "labels": { "resource": "ingress/shop/excess" },
                "providerSpecific": properties,
            })
        })
        .collect()
}

/// The Markdown table, a line at a time.
struct Table {
    text: String,
}

impl Table {
    fn new() -> Outcome<Self> {
        let cores = thread::available_parallelism()?;
        let memory = fs::read_to_string("/proc/meminfo")?;
        let total_kib: u64 = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .ok_or("no MemTotal in /proc/meminfo")?
            .parse()?;
        let mut text = String::new();
        writeln!(
            text,
            "Measured on {cores} cores with {} GiB of memory.\n",
            total_kib.div_ceil(1024 * 1024)
        )?;
        writeln!(text, "| what | measured | aim |\n|---|---|---|")?;
        Ok(Self { text })
    }

    fn line(&mut self, what: &str, measured: &str, aim: &str) -> Outcome<()> {
        Ok(writeln!(self.text, "| {what} | {measured} | {aim} |")?)
    }

    fn memory(&mut self, what: &str, program: &Program, aim_kib: u64) -> Outcome<()> {
        self.memory_of(what, program.memory_kib()?, aim_kib)
    }

    fn memory_of(&mut self, what: &str, (resident, peak): (u64, u64), aim_kib: u64) -> Outcome<()> {
        let measured = format!("{} MiB (peak {})", mebibytes(resident), mebibytes(peak));
        self.line(what, &measured, &format!("{} MiB", aim_kib / 1024))
    }
}

/// With one decimal, from KiB.
fn mebibytes(kib: u64) -> String {
    let tenths = (kib * 10).div_ceil(1024);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}
