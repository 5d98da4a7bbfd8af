"""engine_client"""
