from .exporter import export_lines
from .importer import ImportReport, ReadLines, bounded_lines, import_lines
from .records import TransferError

__all__ = ["ImportReport", "ReadLines", "TransferError", "bounded_lines", "export_lines", "import_lines"]
