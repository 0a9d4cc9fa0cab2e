//! The label values of an enum's variants in metrics, and the list of these values. Tests compare the alert rules and
//! the dashboard with the list.

/// Defines, in an enum's `impl`, its label values in metrics: `label_value` for one, and `LABEL_VALUES` for all.
macro_rules! label_values {
    ($($pattern:pat => $value:literal,)+) => {
        /// Every value that [`Self::label_value`] can return.
        pub const LABEL_VALUES: &[&str] = &[$($value),+];

        /// A constant word for metrics.
        pub const fn label_value(&self) -> &'static str {
            match self {
                $($pattern => $value,)+
            }
        }
    };
}

pub(crate) use label_values;
