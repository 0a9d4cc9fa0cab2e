//! The words that stand for an enum's variants in metrics, and the list of them, which the alert rules and the dashboard
//! are tested against.

/// Defines, in an enum's `impl`, its words in metrics: `label` of a value, and `LABELS` of all.
macro_rules! labels {
    ($($pattern:pat => $label:literal,)+) => {
        /// Every word that [`Self::label`] can answer.
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
