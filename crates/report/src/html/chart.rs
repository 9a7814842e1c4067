//! Places for charts that the page's script draws, and the data that they are drawn from.

use plimsoll_analysis::chart::Chart;
use serde_json::Value;

use super::markup::Text;

/// The charts of a page, by the number in their places.
#[derive(Default)]
pub struct Charts {
    data: Vec<Value>,
}

impl Charts {
    /// A place for `chart`; nothing where there is nothing to draw.
    pub fn place(&mut self, chart: &Chart) -> String {
        if chart.x.is_empty() || chart.lines.is_empty() {
            return String::new();
        }
        let place =
            format!("<div class=\"chart\" id=\"chart-{}\" data-name=\"{}\"></div>", self.data.len(), Text(&chart.name));
        self.data.push(serde_json::to_value(chart).unwrap_or_default());
        place
    }

    /// The data, in the order of the places.
    pub fn data(self) -> Value {
        Value::Array(self.data)
    }
}
