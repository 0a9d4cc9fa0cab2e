//! `DEFAULT_SERVICE`: the service of endpoints that name none, and the placeholders in a service.

use std::borrow::Cow;

use crate::ingress::Service;

const NAME: &str = "{name}";
pub(super) const NAMESPACE: &str = "{namespace}";

/// A service with placeholders for the name and the namespace of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTemplate(Box<str>);

impl ServiceTemplate {
    /// Parses a template such as `http://{name}.{namespace}.svc:80`.
    ///
    /// # Errors
    ///
    /// If the filled template is not a service.
    pub fn parse(text: &str) -> Result<Self, String> {
        let template = Self(text.into());
        let filled = template.fill("kind/namespace/name");
        if filled.contains(['{', '}']) {
            return Err(format!("braces stand around something other than {NAME} and {NAMESPACE}"));
        }
        Service::parse(&filled)?;
        Ok(template)
    }

    /// True if the name of an object is a part of the service.
    pub fn has_name(&self) -> bool {
        self.0.contains(NAME)
    }

    /// The service for the object that a `resource` label names.
    pub fn fill(&self, resource: &str) -> String {
        fill(&self.0, resource).into_owned()
    }
}

/// A service for the object that a `resource` label such as `ingress/shop/web` names. If the label names no object, the
/// placeholders stay, and the endpoint is invalid.
pub fn fill<'t>(text: &'t str, resource: &str) -> Cow<'t, str> {
    let mut parts = resource.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(namespace), Some(name)) if text.contains('{') => {
            text.replace(NAMESPACE, namespace).replace(NAME, name).into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_from_the_resource_label() {
        let template = ServiceTemplate::parse("http://{name}.{namespace}.svc:80").expect("a template");
        assert_eq!(template.fill("ingress/shop/web"), "http://web.shop.svc:80");
        assert_eq!(template.fill(""), "http://{name}.{namespace}.svc:80");
    }

    #[test]
    fn what_can_never_become_a_service_is_no_template() {
        for text in ["http://web:80/path", "web:80", "http://{nmae}:80", ""] {
            assert!(ServiceTemplate::parse(text).is_err(), "{text}");
        }
    }
}
