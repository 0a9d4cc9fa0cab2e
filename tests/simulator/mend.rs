//! What becomes of the objects when their authors read the log and do what it asks for: then there is nothing left to
//! refuse.

use std::collections::BTreeSet;

use crate::claims::Claims;
use crate::objects::{Access, Object};
use crate::settings::Settings;

/// The objects with every mistake corrected, and of those that want the same only the first.
pub(crate) fn mended(objects: &[Object], settings: &Settings, claims: &Claims) -> Vec<Object> {
    let mut slots = BTreeSet::new();
    let mut mended: Vec<Object> = Vec::new();
    for object in objects {
        let mut object = object.clone().corrected(settings);
        let first = mended.iter().find(|other| other.host == object.host);
        if let Some(first) = first {
            object.tunnel = first.tunnel;
        }
        let is_strange =
            first.is_some_and(|first| settings.namespace_guard && first.namespace != object.namespace);
        let rules: Vec<_> = object.rules().map(|(path, _)| (object.host, path)).collect();
        if is_strange || rules.iter().any(|rule| slots.contains(rule)) {
            continue;
        }
        slots.extend(rules);
        mended.push(object);
    }
    let is_protected = |host: &str| {
        let mut on_host = objects.iter().filter(|object| object.host == host);
        settings.access_guard || claims.history(host).was_protected || on_host.any(Object::is_secret)
    };
    for object in &mut mended {
        if is_protected(object.host) && !matches!(object.access, Access::Policies(_)) {
            object.set_access(Access::Policies("staff"), settings);
        }
    }
    mended
}
