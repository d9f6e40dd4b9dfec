"""The policy for programs without torch: its networks as ONNX beside the table of actions, and who reads them.

Only `wolpertinger export` imports it: onnx, onnxscript and onnxruntime are the extra [onnx].
"""
