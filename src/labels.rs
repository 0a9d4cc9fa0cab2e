//! The words for an enum's variants in metrics, and the list of these words. Tests compare the alert rules and the
//! dashboard with the list.

/// Defines, in an enum's `impl`, its words in metrics: `label` for one value, and `LABELS` for all values.
macro_rules! labels {
    ($($pattern:pat => $label:literal,)+) => {
        /// Every word that [`Self::label`] can return.
        pub const LABELS: &[&str] = &[$($label),+];

        /// A constant word for metrics.
        pub const fn label(&self) -> &'static str {
            match self {
                $($pattern => $label,)+
            }
        }
    };
}

pub(crate) use labels;
