const pages = { plan: plan_page, comparison: comparison_page, sizing: sizing_page };
pages[data.kind](document.getElementById("header"), document.getElementById("main"));
