"""The sample models: a file a family, `exporters` and `rewritten` make files of them, `table` lists them."""
